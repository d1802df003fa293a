#pragma once

#include "recipes/recipe.h"
#include "training/logging/json.h"
#include "training/resume/run_state.h"
#include "training/step/step_engine.h"
#include "training/tasks/model_form.h"
#include "training/tasks/training_task.h"

namespace comera {

// The speed of the steps since the last line of metrics.
struct Speed {
  double seconds_per_step = 0;
  double units_per_second = 0;
};

// A step's line of metrics, without the additions of rank stages and other processes; rate_factor: the
// schedule's at that step. docs/guide/commands.md describes the lines.
Json step_metrics(const PhaseSection& phase, double rate_factor, StepEngine& engine, const ModelForm& form,
                  const TrainingTask& task, const RunState& state, const Speed& speed);

}  // namespace comera
