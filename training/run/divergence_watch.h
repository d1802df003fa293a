#pragma once

#include <cstdint>
#include <optional>

namespace comera {

// Notices that a training loss is worse than guessing and stays so, as it does with learning rates that are
// too high. The loss of steps is averaged over blocks, so that single bad steps count for little; a loss that
// is high but falling gets more time; and where a model starts with a high loss, that is the measure.
class DivergenceWatch {
 public:
  static constexpr int block_steps = 20;

  // uniform: the loss in nats of guessing all classes alike; 0: there is no such loss, and nothing is
  // watched. from_start: whether the first step is the run's first.
  DivergenceWatch(double uniform, bool from_start) : uniform_(uniform), takes_first_(from_start) {}

  enum class Finding : std::uint8_t {
    high,    // above the limit for two blocks without falling, or for four; found once
    absurd,  // two blocks of more than a hundred times the limit
  };
  // loss: of a finite step, in nats per target.
  std::optional<Finding> add(double loss);

  // The loss of the last step, if it is above the limit.
  std::optional<double> now_high() const {
    return uniform_ > 0 && last_ > limit() ? std::optional(last_) : std::nullopt;
  }
  // The mean loss of the last whole block, and the limit that it is compared with.
  double mean() const { return mean_; }
  double limit() const;

 private:
  std::optional<Finding> end_block();

  double uniform_;
  bool takes_first_;
  double first_ = 0;  // the loss of the first step
  double sum_ = 0, mean_ = 0, last_ = 0;
  int steps_ = 0;              // in this block
  int high_ = 0, absurd_ = 0;  // blocks in a row
  bool found_ = false;
};

}  // namespace comera
