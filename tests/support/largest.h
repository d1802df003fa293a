#pragma once

#include <cmath>

namespace comera::test {

// The larger of two, or NaN once one of them was NaN. std::max(a, NaN) is a, so that a fold with it would
// hide exactly the error that a test looks for.
inline double larger_or_nan(double a, double b) { return std::isnan(a) || b <= a ? a : b; }

}  // namespace comera::test
