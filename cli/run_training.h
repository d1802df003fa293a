#pragma once

#include <functional>

#include "recipes/recipe.h"
#include "training/run/signals.h"
#include "training/run/training_run.h"

namespace comera::cli {

// Trains as a recipe says until the end or until a signal stops it, and prints what came out: what
// `pretrain`, `finetune` and `resume` do. begun is called before the first step.
using RunBegins = std::function<void(const TrainingRun& run)>;
void run_training(const Recipe& recipe, const TrainingOptions& options, StopSignals& signals,
                  const RunBegins& begun = {});

}  // namespace comera::cli
