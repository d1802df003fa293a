#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "distributed/communicator.h"
#include "recipes/recipe.h"
#include "training/run/signals.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace comera::cli {

struct TrainingCommandOptions;

// --find-rate of the commands that train, and its options.
struct RateFinding {
  bool asked = false;
  double minutes = 5;
  std::int64_t trial_steps = 0;
  std::filesystem::path plot;
};

// Returns --find-rate.
CLI::Option* add_rate_finding(CLI::App& command, RateFinding& options);

// Prints the best learning rates of the recipe that `recipe` loads, and writes the plot. UsageError for
// options of the command that are for a whole run.
void find_rate(const RateFinding& options, const TrainingCommandOptions& training, bool finetune,
               const std::function<Recipe()>& recipe, const Communicator& communicator, StopSignals& signals);

}  // namespace comera::cli
