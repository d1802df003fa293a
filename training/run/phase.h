#pragma once

#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "recipes/recipe.h"

namespace comera {

// UsageError for a model that cannot be pretrained.
void require_masked_language_head(const EncoderConfig& config);

// "phase.N.mask_probability", or the final one, of the first phase that has one; empty: none.
std::string given_mask_probability(const std::vector<PhaseSection>& phases);

// Of a phase with so many steps, which may be counted in epochs.
std::int64_t warmup_steps_of(const PhaseSection& phase, std::int64_t steps);
Schedule schedule_of(const PhaseSection& phase, std::int64_t steps);
// The seed for a phase's data order, distinct for each phase and run seed.
std::int64_t order_seed(std::int64_t seed, std::int64_t phase);

}  // namespace comera
