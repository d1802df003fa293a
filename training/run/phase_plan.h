#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "recipes/recipe.h"

namespace comera {

// How many steps each phase of a run has, and where in them evaluations are due. With run.max_hours they are
// estimates, which follow the clock until a phase's time is over.
class PhasePlan {
 public:
  PhasePlan() = default;
  // micro_batches_per_epoch(phase): of all processes together; asked only where steps are counted in epochs.
  // UsageError where a warm-up is longer than its phase.
  PhasePlan(const Recipe& recipe, const std::function<std::int64_t(std::int64_t)>& micro_batches_per_epoch);

  std::int64_t phases() const { return static_cast<std::int64_t>(steps_.size()); }
  std::int64_t steps(std::int64_t phase) const { return steps_[phase]; }
  const std::vector<std::int64_t>& steps() const { return steps_; }
  std::int64_t total() const;
  // What is left behind so many steps of a phase, in steps of that phase: those of others count as their
  // tokens do.
  double work_left(std::int64_t phase, std::int64_t phase_step) const;

  // Of a run that goes on in a phase: those before it keep the steps that they had. A later one that is
  // counted in epochs keeps the steps it was begun with, unless the recipe asks for other epochs than
  // `before` did; a timed one keeps its estimates.
  void keep_begun(const std::vector<std::int64_t>& begun, const Recipe& before, std::int64_t current_phase);

  // Whether phases end when their time does.
  bool timed() const { return !deadlines_.empty(); }
  // Of a timed run that stands in a phase: how many steps this phase and those after it have, at the pace of
  // this phase's steps until now. Does nothing before its first step.
  struct Spent {
    std::int64_t phase = 0, phase_step = 0;
    double seconds = 0, phase_seconds = 0;
  };
  void replan(const Spent& spent);
  // Warm-up of so many steps in a phase: in a timed run no larger a share of it than of the recipe's steps.
  std::int64_t warmup(std::int64_t phase, std::int64_t asked) const;

  // Whether this step of the phase is the last of one of its run.evaluation_epochs.
  bool ends_evaluation_epoch(std::int64_t phase, std::int64_t phase_step) const;

 private:
  std::vector<std::int64_t> steps_;
  std::vector<std::int64_t> asked_steps_;      // before the clock was looked at
  std::vector<std::int64_t> steps_per_epoch_;  // 0: nobody asks
  std::vector<std::optional<double>> epochs_;  // that the recipe asks for
  double evaluation_epochs_ = 0;
  std::vector<double> step_costs_;  // in tokens that a step's micro-batches have room for
  std::vector<double> deadlines_;   // in seconds from the run's beginning; empty if the run is not timed
};

}  // namespace comera
