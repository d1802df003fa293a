#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/core/grouped.h"

namespace comera {

// "9.2 times fewer" or, if there are more than in the baseline, "3.5 times more".
inline std::string times_text(std::int64_t baseline, std::int64_t own) {
  const double ratio = static_cast<double>(baseline) / static_cast<double>(own);
  const double factor = std::max(ratio, 1 / ratio);
  return fmt::format("{:.{}f} times {}", factor, factor < 1.05 ? 2 : 1, ratio < 1 ? "more" : "fewer");
}

constexpr double fp32_bytes = 4;

// "5.94 MB": the size of these parameters in fp32.
inline std::string megabytes(double numbers) { return fmt::format("{:.2f} MB", numbers * fp32_bytes / 1e6); }
inline std::string megabytes(std::int64_t numbers) { return megabytes(static_cast<double>(numbers)); }

}  // namespace comera
