#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace comera::cli {

// --data and --tokenizer: what a pretraining learns from, instead of what its recipe says.
struct TrainingDataOptions {
  std::vector<std::string> folders;
  std::string tokenizer;
};

// Returns --data.
CLI::Option* add_training_data_options(CLI::App& command, TrainingDataOptions& options);

// One folder becomes data.train, and data.validation if it has a held-out part; several become sources of
// equal weight. What is not given stays. UsageError for two folders of one name.
void set_data(Recipe& recipe, const TrainingDataOptions& options);

}  // namespace comera::cli
