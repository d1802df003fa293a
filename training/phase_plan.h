#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "recipes/recipe.h"

namespace comera {

// How many steps each phase of a run has, and where in them evaluations are due.
class PhasePlan {
 public:
  PhasePlan() = default;
  // packs_per_epoch(phase): of all processes together; asked only where steps are counted in epochs.
  // UsageError where a warm-up is longer than its phase.
  PhasePlan(const Recipe& recipe, const std::function<std::int64_t(std::int64_t)>& packs_per_epoch);

  std::int64_t phases() const { return static_cast<std::int64_t>(steps_.size()); }
  std::int64_t steps(std::int64_t phase) const { return steps_[phase]; }
  const std::vector<std::int64_t>& steps() const { return steps_; }
  std::int64_t total() const;

  // Of a run that goes on: a phase that is counted in epochs keeps the steps it was begun with, unless the
  // recipe asks for other epochs than `before` did.
  void keep_begun(const std::vector<std::int64_t>& begun, const Recipe& before);

  // Whether this step of the phase is the last of one of its run.evaluation_epochs.
  bool ends_evaluation_epoch(std::int64_t phase, std::int64_t phase_step) const;

 private:
  std::vector<std::int64_t> steps_;
  std::vector<std::int64_t> steps_per_epoch_;  // 0: nobody asks
  std::vector<std::optional<double>> epochs_;  // that the recipe asks for
  double evaluation_epochs_ = 0;
};

}  // namespace comera
