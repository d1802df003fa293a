#pragma once

#include "recipes/recipe.h"
#include "training/logging/json.h"
#include "training/resume/run_state.h"
#include "training/step/step_engine.h"
#include "training/tasks/model_form.h"
#include "training/tasks/training_task.h"

namespace comera {

// How quick the steps since the last line of metrics were.
struct Speed {
  double seconds_per_step = 0;
  double units_per_second = 0;
};

// The line of metrics of a step, without what stages of ranks and other processes add; rate_factor: the
// schedule's at that step. docs/guide/commands.md describes the lines.
Json step_metrics(const PhaseSection& phase, double rate_factor, StepEngine& engine, const ModelForm& form,
                  const TrainingTask& task, const RunState& state, const Speed& speed);

}  // namespace comera
