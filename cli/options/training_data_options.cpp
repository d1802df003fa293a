#include "cli/options/training_data_options.h"

#include <CLI/CLI.hpp>

#include "data/shards/sequence_set.h"

namespace comera::cli {

CLI::Option* add_training_data_options(CLI::App& command, TrainingDataOptions& options) {
  command
      .add_option("--tokenizer", options.tokenizer,
                  "Use this tokenizer, which must be that of the data, instead of the recipe's")
      ->type_name("FILE");
  return command
      .add_option(
          "--data", options.folders,
          "Train on these folders of shards instead of the recipe's; several are mixed in equal parts")
      ->type_name("DIR");
}

void set_data(Recipe& recipe, const TrainingDataOptions& options) {
  DataSection& data = recipe.data;
  if (!options.tokenizer.empty()) data.tokenizer = options.tokenizer;
  if (options.folders.empty()) return;
  data.train.clear(), data.validation.clear(), data.sources.clear();
  if (options.folders.size() == 1) {
    data.train = options.folders[0];
    if (data::has_held_out(data.train)) data.validation = data.train;
    return;
  }
  for (const std::string& folder : options.folders) data.sources.push_back({.folder = folder, .weight = 1.0});
  validate(recipe);  // sources are identified by name
}

}  // namespace comera::cli
