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
struct TrainedOnOptions {
  std::vector<std::string> folders;
  std::string tokenizer;
};

// Returns --data.
CLI::Option* add_trained_on_options(CLI::App& command, TrainedOnOptions& options);

// One folder becomes data.train, and data.validation if it has a held-out part; several become sources of
// equal weight. What is not given stays.
void set_data(Recipe& recipe, const TrainedOnOptions& options);

}  // namespace comera::cli
