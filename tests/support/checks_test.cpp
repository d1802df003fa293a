// The checks that other tests rely on detect errors: a NaN, an error in one entry, a wrong size.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/plain/plain_backend.h"
#include "tests/cpu/world.h"
#include "tests/support/harness.h"
#include "tests/support/largest.h"

namespace comera::test {
namespace {

TEST(Checks, TheLargestOfANaNIsNaN) {
  EXPECT_EQ(larger_or_nan(1, 2), 2);
  EXPECT_EQ(larger_or_nan(2, 1), 2);
  EXPECT_TRUE(std::isnan(larger_or_nan(1, NAN)));
  EXPECT_TRUE(std::isnan(larger_or_nan(NAN, 1)));
}

TEST(Checks, FiniteDifferencesSeeAGradientThatIsWrongOrNaN) {
  Harness harness(plain_backend());
  const Tensor x = harness.tensor({3}, DType::float64, {1, 2, 3});
  const auto squares = [&] {
    double sum = 0;
    for (int i = 0; i < 3; ++i) sum += x.data<double>()[i] * x.data<double>()[i];
    return sum;
  };
  const auto error_of = [&](const std::vector<double>& gradient) {
    return finite_difference_error(x, harness.tensor({3}, DType::float64, gradient), squares);
  };
  EXPECT_LT(error_of({2, 4, 6}), 1e-8);
  EXPECT_GT(error_of({2, 4, 6.1}), 1e-3);
  for (int at = 0; at < 3; ++at) {
    std::vector<double> gradient = {2, 4, 6};
    gradient[at] = NAN;
    EXPECT_FALSE(error_of(gradient) < 1e-3) << at;
  }
}

TEST(Checks, FiniteDifferencesSeeALossThatIsNaN) {
  Harness harness(plain_backend());
  const Tensor x = harness.tensor({2}, DType::float64, {1, 0});
  const auto loss = [&] { return std::sqrt(x.data<double>()[1]) + x.data<double>()[0]; };  // NaN below 0
  EXPECT_FALSE(finite_difference_error(x, harness.tensor({2}, DType::float64, {1, 0}), loss) < 1e-3);
}

TEST(Checks, RelativeErrorsSeeANaNAndAnotherSize) {
  EXPECT_EQ(relative_error({1, 2}, {1, 2}), 0);
  EXPECT_FALSE(relative_error({1, NAN}, {1, 2}) < 1);
  EXPECT_FALSE(relative_error({1, 2}, {1, NAN}) < 1);
  EXPECT_FALSE(relative_error({1, 2}, {1}) < 1);
}

TEST(Checks, IntegersAreComparedInAllTheirBytes) {
  World one(plain_backend(), DType::float32), other(plain_backend(), DType::float32);
  one.chosen_integer("count", 5);
  other.chosen_integer("count", 5 + 256);
  EXPECT_EQ(one.outputs().at(0).values, std::vector<double>{5});
  EXPECT_EQ(other.outputs().at(0).values, std::vector<double>{261});
}

}  // namespace
}  // namespace comera::test
