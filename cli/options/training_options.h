#pragma once

#include <functional>
#include <optional>
#include <string>

#include <vector>

#include "cli/options/recipe_options.h"
#include "training/run/signals.h"
#include "training/run/training_run.h"

namespace comera::cli {

// Shared by `pretrain` and `finetune`.
struct TrainingCommandOptions {
  RecipeOptions recipe;
  std::string from;  // checkpoint or run directory with the initial weights
  // Settings that follow from the recipe of the model in `from`, weaker than --set; may be empty.
  std::function<std::vector<std::string>(const Recipe& model)> defaults;
  bool scratch = false;  // takes only shapes and tokenizer from `from`: the run begins with random weights
  std::string output, resume = "never";
  std::string device, graph;  // empty: as in the recipe
  std::int64_t stop_after = 0;
  bool use_older = false;
};

// Returns RECIPE.
CLI::Option* add_training_options(CLI::App& command, TrainingCommandOptions& options);

// Runs `command` in this process alone, or as a process of the job that it was started for: then an error in
// one process ends them all.
using TrainingCommand = std::function<void(Communicator& communicator, StopSignals& signals)>;
void run_in_job(const TrainingCommand& command);

// The recipe with the command's options applied, and how to run it. signals, if given, stop the run; they
// must outlive it.
Recipe load_training_recipe(const TrainingCommandOptions& options);
// The same for the commands that train encoders: UsageError for a click model's recipe.
Recipe load_encoder_recipe(const TrainingCommandOptions& options);
TrainingOptions training_options(const TrainingCommandOptions& options, Communicator& communicator,
                                 const StopSignals& signals);

// The recipe in a run's folder or, if it is missing or damaged, that of its newest checkpoint; nothing if the
// folder contains no run.
std::optional<Recipe> recipe_of_run(const std::filesystem::path& run,
                                    const std::vector<std::string>& overrides = {});

}  // namespace comera::cli
