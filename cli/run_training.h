#pragma once

#include <functional>

#include "recipes/recipe.h"
#include "training/run/signals.h"
#include "training/run/training_run.h"

namespace comera::cli {

// Trains according to a recipe until the end or until a signal stops it, and prints the result: the work of
// `pretrain`, `finetune` and `resume`. begun is called before the first step.
using RunBegins = std::function<void(const TrainingRun& run)>;
void run_training(const Recipe& recipe, const TrainingOptions& options, StopSignals& signals,
                  const RunBegins& begun = {});

}  // namespace comera::cli
