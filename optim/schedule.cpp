#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace comera {

double Schedule::factor(std::int64_t step) const {
  if (step < warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  const auto end = static_cast<double>(steps);
  auto begin = static_cast<double>(warmup_steps);
  if (kind == ScheduleKind::warmup_stable_decay) begin = std::max(begin, end - decay_share * end);
  const double done = std::clamp((static_cast<double>(step) - begin) / std::max(end - begin, 1.0), 0.0, 1.0);
  double fall = 1;  // from 1 to 0
  switch (kind) {
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::linear:
    case ScheduleKind::warmup_stable_decay:
      fall = 1 - done;
      break;
    case ScheduleKind::cosine:
      fall = 0.5 * (1 + std::cos(std::numbers::pi * done));
      break;
    case ScheduleKind::polynomial:
      fall = std::pow(1 - done, power);
      break;
  }
  return final_ratio + (1 - final_ratio) * fall;
}

}  // namespace comera
