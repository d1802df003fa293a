#pragma once

#include "data/loader.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "recipes/recipe.h"
#include "training/training_task.h"

namespace comera {

// UsageError for a model that cannot be pretrained.
void require_masked_language_head(const EncoderConfig& config);

// UsageError "phase.N.mask_probability WHY; leave it out" if a phase has one.
void refuse_mask_probability(const std::vector<PhaseSection>& phases, const std::string& why);

// A phase's highest rates, times the schedule's factor.
StepRates step_rates(const LearningRates& highest, double factor);
// With the steps of the phase, which may be counted in epochs.
Schedule schedule_of(const PhaseSection& phase, std::int64_t steps);
// The packs of a phase for one process; the ranks of a job set `rank` and `ranks`. The model gives its
// vocabulary and the rows of its embedding's right half.
data::LoaderOptions loader_options(const Recipe& recipe, std::int64_t phase, const TrainingTask& task,
                                   const Model& model);

}  // namespace comera
