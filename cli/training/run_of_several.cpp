#include "cli/training/run_of_several.h"

#include <fmt/format.h>

#include "training/tasks/seed_results.h"

namespace comera::cli {

std::optional<TrainingOutcome> train_one_of_several(const Recipe& recipe, const Recipe& settings,
                                                    const std::string& data, TrainingOptions options,
                                                    StopSignals& signals) {
  const std::filesystem::path run = recipe.run.output;
  require_begun_settings(run, settings, data);
  options.finetune = true;
  options.mode = RunMode::automatic;
  TrainingRun training(recipe, options);
  signals.begin();
  const TrainingOutcome outcome = training.run();
  if (!outcome.finished) return std::nullopt;
  COMERA_CHECK(!outcome.best.empty(),
               "{}: has no best model, since no evaluation was finite; train with lower rates (--set "
               "phase.0.learning_rate=...)",
               run.string());
  return outcome;
}

}  // namespace comera::cli
