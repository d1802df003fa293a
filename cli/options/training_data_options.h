#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace comera::cli {

// --data and --tokenizer: the data of a pretraining run, replacing those in its recipe.
struct TrainingDataOptions {
  std::vector<std::string> folders;
  std::string tokenizer;
};

// Returns --data.
CLI::Option* add_training_data_options(CLI::App& command, TrainingDataOptions& options);

// One folder becomes data.train, and data.validation if it has a held-out part; several become sources of
// equal weight. Options that are absent change nothing. UsageError for two folders with one name.
void set_data(Recipe& recipe, const TrainingDataOptions& options);

}  // namespace comera::cli
