#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace comera {

double Schedule::factor(std::int64_t step) const {
  if (step < warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  const double span = static_cast<double>(std::max<std::int64_t>(steps - warmup_steps, 1));
  const double done = std::min(static_cast<double>(step - warmup_steps) / span, 1.0);
  double fall = 1;  // from 1 to 0
  switch (kind) {
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::linear:
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
