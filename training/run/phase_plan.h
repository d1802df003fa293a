#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "recipes/recipe.h"

namespace comera {

// The number of steps in each phase of a run, and when evaluations are due. With run.max_hours the numbers
// are estimates, updated by the clock until a phase's time is over.
class PhasePlan {
 public:
  PhasePlan() = default;
  // micro_batches_per_epoch(phase): of all processes together; called only if steps are given in epochs.
  // UsageError if a warm-up is longer than its phase, or reaches into its decay.
  PhasePlan(const Recipe& recipe, const std::function<std::int64_t(std::int64_t)>& micro_batches_per_epoch);

  std::int64_t phases() const { return static_cast<std::int64_t>(steps_.size()); }
  std::int64_t steps(std::int64_t phase) const { return steps_[phase]; }
  const std::vector<std::int64_t>& steps() const { return steps_; }
  std::int64_t total() const;
  // The work that is left after `phase_step` steps of a phase, in steps of that phase: steps of other phases
  // are weighted by their tokens.
  double work_left(std::int64_t phase, std::int64_t phase_step) const;

  // For a run that resumes in a phase: earlier phases keep their steps. A later phase given in epochs keeps
  // its original steps, unless the recipe's epochs differ from those of `before`; a timed phase keeps its
  // estimates.
  void keep_begun(const std::vector<std::int64_t>& begun, const Recipe& before, std::int64_t current_phase);

  // Whether phases end by time.
  bool timed() const { return !deadlines_.empty(); }
  // For a timed run within a phase: estimates the steps of this and later phases from the pace of this phase
  // so far. Does nothing before its first step.
  struct Spent {
    std::int64_t phase = 0, phase_step = 0;
    double seconds = 0, phase_seconds = 0;
  };
  void replan(const Spent& spent);
  // The warm-up steps of a phase with this section: in a timed run, warmup_steps take at most the same share
  // of the phase as in the recipe.
  std::int64_t warmup(std::int64_t phase, const PhaseSection& section) const;

  // Whether this step of the phase ends one of its run.evaluation_epochs.
  bool ends_evaluation_epoch(std::int64_t phase, std::int64_t phase_step) const;

 private:
  std::vector<std::int64_t> steps_;
  std::vector<std::int64_t> asked_steps_;      // before the clock was consulted
  std::vector<std::int64_t> steps_per_epoch_;  // 0: not needed
  std::vector<std::optional<double>> epochs_;  // requested by the recipe
  double evaluation_epochs_ = 0;
  std::vector<double> step_costs_;  // in tokens: the capacity of a step's micro-batches
  std::vector<double> deadlines_;   // in seconds since the run's start; empty if the run is not timed
};

}  // namespace comera
