#pragma once

#include <cstdint>

namespace comera {

enum class ScheduleKind : std::uint8_t { constant, linear, cosine, polynomial, warmup_stable_decay };

// How a learning rate changes over a phase of `steps` optimizer steps: it rises linearly over warmup_steps,
// then falls to final_ratio of its maximum. constant: it stays; warmup_stable_decay: it stays, and falls
// linearly in the last steps (Hu et al., "MiniCPM", 2024, section 4; Hägele et al., 2024).
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  std::int64_t steps = 0;
  std::int64_t warmup_steps = 0;
  double power = 1;        // for a polynomial schedule
  double decay_share = 0;  // of the steps, for warmup_stable_decay
  double final_ratio = 0;  // relative to the highest rate, at the last step

  // The factor of the highest rate for step 0..steps-1.
  double factor(std::int64_t step) const;
};

}  // namespace comera
