#include "training/run/phase_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/core/check.h"
#include "training/run/phase.h"

namespace comera {

PhasePlan::PhasePlan(const Recipe& recipe,
                     const std::function<std::int64_t(std::int64_t)>& micro_batches_per_epoch)
    : evaluation_epochs_(recipe.run.evaluation_epochs) {
  for (std::int64_t phase = 0; phase < static_cast<std::int64_t>(recipe.phases.size()); ++phase) {
    const PhaseSection& section = recipe.phases[phase];
    const bool counted = section.epochs.has_value() || evaluation_epochs_ > 0;
    const double micro_batches = counted ? static_cast<double>(micro_batches_per_epoch(phase)) : 0;
    const auto steps_of = [&](double epochs) {
      const double steps = epochs * micro_batches / static_cast<double>(section.micro_batches_per_step);
      return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(steps)));
    };
    const std::int64_t steps = section.steps ? *section.steps : steps_of(*section.epochs);
    if (section.epochs && section.warmup_steps > steps)
      throw UsageError(
          fmt::format("phase.{0}.warmup_steps = {1} is more than the {2} steps of phase.{0}.epochs = {3} "
                      "with these data; give a share of the steps instead, for instance --set "
                      "phase.{0}.warmup_share=0.1, or raise epochs",
                      phase, section.warmup_steps, steps, *section.epochs));
    if (!section.warms_up_before_decay(steps))
      throw UsageError(fmt::format(
          "phase.{0}.decay_share = {1} begins its decay before phase.{0}.warmup_steps = {2} end, in "
          "the {3} steps of these data; lower one of them, or raise epochs",
          phase, section.decay_share, section.warmup_steps, steps));
    steps_.push_back(steps);
    steps_per_epoch_.push_back(counted ? steps_of(1) : 0);
    epochs_.push_back(section.epochs);
    step_costs_.push_back(static_cast<double>(section.micro_batches_per_step * section.micro_batch_size()));
  }
  asked_steps_ = steps_;
  if (recipe.run.max_hours) {
    double all = 0;
    for (std::size_t phase = 0; phase < steps_.size(); ++phase)
      deadlines_.push_back(all += static_cast<double>(steps_[phase]) * step_costs_[phase]);
    for (double& deadline : deadlines_) deadline *= 3600 * *recipe.run.max_hours / all;
  }
}

void PhasePlan::replan(const Spent& spent) {
  if (!timed() || spent.phase_step == 0) return;
  const auto now = static_cast<std::size_t>(spent.phase);
  const double pace = std::max(spent.phase_seconds, 1e-9) / static_cast<double>(spent.phase_step);
  double begin = spent.seconds;
  for (std::size_t phase = now; phase < steps_.size(); ++phase) {
    const double left = std::max(deadlines_[phase] - begin, 0.0);
    const double steps = left / (pace * step_costs_[phase] / step_costs_[now]);
    begin = std::max(begin, deadlines_[phase]);
    // A coming phase has at least one step; this one has had it.
    const std::int64_t whole = std::llround(std::min(steps, 1e15));
    steps_[phase] = phase == now ? spent.phase_step + whole : std::max<std::int64_t>(whole, 1);
  }
}

std::int64_t PhasePlan::total() const {
  return std::accumulate(steps_.begin(), steps_.end(), std::int64_t{0});
}

double PhasePlan::work_left(std::int64_t phase, std::int64_t phase_step) const {
  double work = static_cast<double>(steps_[phase] - phase_step);
  for (std::int64_t next = phase + 1; next < phases(); ++next)
    work += static_cast<double>(steps_[next]) * step_costs_[next] / step_costs_[phase];
  return work;
}

void PhasePlan::keep_begun(const std::vector<std::int64_t>& begun, const Recipe& before,
                           std::int64_t current_phase) {
  const std::size_t known = std::min({begun.size(), steps_.size(), before.phases.size()});
  const bool was_timed = before.run.max_hours.has_value();
  for (std::size_t phase = 0; phase < known; ++phase) {
    const bool same_epochs = epochs_[phase] && epochs_[phase] == before.phases[phase].epochs;
    const bool is_over = static_cast<std::int64_t>(phase) < current_phase;
    if (is_over || timed() || (same_epochs && !was_timed)) steps_[phase] = begun[phase];
  }
}

std::int64_t PhasePlan::warmup(std::int64_t phase, const PhaseSection& section) const {
  const std::int64_t asked = warmup_steps_of(section, steps_[phase]);
  if (!timed() || section.warmup_share > 0) return asked;
  const double share = static_cast<double>(asked) / static_cast<double>(asked_steps_[phase]);
  return std::min<std::int64_t>(asked, std::llround(share * static_cast<double>(steps_[phase])));
}

bool PhasePlan::ends_evaluation_epoch(std::int64_t phase, std::int64_t phase_step) const {
  if (evaluation_epochs_ <= 0) return false;
  // The number of due evaluations increases with this step.
  const double every = evaluation_epochs_ * static_cast<double>(steps_per_epoch_[phase]);
  const auto due_by = [&](std::int64_t step) {
    return static_cast<std::int64_t>((static_cast<double>(step) + 1e-6) / every);
  };
  return due_by(phase_step) > due_by(phase_step - 1);
}

}  // namespace comera
