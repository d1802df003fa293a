#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/options/recipe_options.h"
#include "training/run/signals.h"
#include "training/run/training_run.h"

namespace comera::cli {

// What `pretrain` and `finetune` share.
struct TrainingCommandOptions {
  RecipeOptions recipe;
  std::string from;      // checkpoint or run directory to begin with
  bool scratch = false;  // of `from` take shapes and tokenizer only: the run begins with random weights
  std::string output, resume = "never";
  std::string device, graph;  // empty: as the recipe says
  std::int64_t stop_after = 0;
  bool use_older = false;
};

void add_training_options(CLI::App& command, TrainingCommandOptions& options);

// Runs `command` in this process as it is, or as a process of the job that it was started for: then what goes
// wrong in one of them ends them all.
using TrainingCommand = std::function<void(Communicator& communicator, StopSignals& signals)>;
void run_in_job(const TrainingCommand& command);

// The recipe with the command's own options put in, and how to run it. signals, once there are any, stop the
// run; they must outlive it.
Recipe load_training_recipe(const TrainingCommandOptions& options);
// The same for the commands that train encoders: UsageError if it is a click model's.
Recipe load_encoder_recipe(const TrainingCommandOptions& options);
TrainingOptions training_options(const TrainingCommandOptions& options, Communicator& communicator,
                                 const StopSignals& signals);

// The recipe in a run's folder, or if it was lost or is damaged, that of its newest checkpoint; nothing if
// the folder is no run's.
std::optional<Recipe> recipe_of_run(const std::filesystem::path& run,
                                    const std::vector<std::string>& overrides = {});

}  // namespace comera::cli
