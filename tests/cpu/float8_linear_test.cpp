// The error of linear layers with 8-bit operands, and the history of their scales.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/ops/float8.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

constexpr std::int64_t tokens = 96, inputs = 128, rank = 32, width = 160;

class Float8Linears : public testing::Test {
 protected:
  Tensor normal(Shape shape, double deviation) { return harness_.random(shape, DType::float64, deviation); }
  Tensor zeros(Shape shape) { return harness_.tensor(shape, DType::float64); }
  std::vector<Float8Scale> scales() const {
    const auto* first = static_cast<const Float8Scale*>(scales_.raw());
    return {first, first + Float8Slots::count};
  }

  TTLinearForward forward() {
    TTLinearForward op{.x = x_, .a = a_, .xa = zeros({tokens, rank}), .outputs = 1, .output = {}};
    op.output[0] = {.column = 0, .b = b_, .bias = {}, .u = zeros({tokens, width}), .y = {}};
    return op;
  }
  TTLinearBackward backward(const Tensor& xa) {
    TTLinearBackward op{.x = x_,
                        .a = a_,
                        .xa = xa,
                        .da = zeros({inputs, rank}),
                        .dx = zeros({tokens, inputs}),
                        .outputs = 1,
                        .output = {},
                        .dxa = {}};
    const Tensor dy = zeros({tokens, width});
    write_tensor(dy, read_tensor(dy_));  // it is overwritten
    op.output[0] = {
        .column = 0, .b = b_, .db = zeros({rank, width}), .dbias = {}, .u = {}, .y = {}, .dy = dy};
    return op;
  }
  double error(const Tensor& rounded, const Tensor& exact) {
    return relative_error(read_tensor(rounded), read_tensor(exact));
  }

  Harness harness_{plain_backend()};
  // With magnitudes as in training: gradients are far smaller than forward operands.
  Tensor x_ = normal({tokens, inputs}, 1), a_ = normal({inputs, rank}, 0.1), b_ = normal({rank, width}, 0.2),
         dy_ = normal({tokens, width}, 1e-6);
  Tensor scales_ = [this] {
    const Tensor tensor =
        harness_.tensor({Float8Slots::count * std::int64_t{sizeof(Float8Scale)}}, DType::uint8);
    std::fill_n(static_cast<Float8Scale*>(tensor.raw()), Float8Slots::count, Float8Scale{});
    return tensor;
  }();
};

// E4M3 rounds each of two operands by up to 1/16, 2.6 % on average: 3.8 % for a product, 5.3 % for two. E5M2
// rounds twice as coarsely.
TEST_F(Float8Linears, ErrorsAreThoseOfTheirRoundedOperands) {
  const TTLinearForward exact = forward(), rounded = forward();
  run(harness_.context(), exact);
  run(harness_.context(), Float8LinearForward{.linear = rounded, .scales = scales_, .options = {}});
  EXPECT_NEAR(error(rounded.xa, exact.xa), 0.038, 0.006);
  EXPECT_NEAR(error(rounded.output[0].u, exact.output[0].u), 0.053, 0.008);
  for (const DType gradients : {DType::float8_e5m2, DType::float8_e4m3}) {
    const bool narrow = gradients == DType::float8_e5m2;
    const TTLinearBackward slope = backward(exact.xa), rounded_slope = backward(exact.xa);
    run(harness_.context(), slope);
    run(harness_.context(),
        Float8LinearBackward{
            .linear = rounded_slope, .scales = scales_, .options = {.gradients = gradients}});
    EXPECT_NEAR(error(rounded_slope.output[0].db, slope.output[0].db), narrow ? 0.059 : 0.038, 0.008);
    EXPECT_NEAR(error(rounded_slope.da, slope.da), narrow ? 0.08 : 0.053, 0.015);
    EXPECT_NEAR(error(rounded_slope.dx, slope.dx), narrow ? 0.08 : 0.053, 0.015);
  }
}

// A million times larger or smaller is the same to the bit: scales are powers of two, and follow.
TEST_F(Float8Linears, CurrentScalesFollowTheTensors) {
  const TTLinearForward first = forward();
  run(harness_.context(), Float8LinearForward{.linear = first, .scales = scales_, .options = {}});
  const std::vector<Float8Scale> before = scales();
  const double factor = 1 << 20;
  std::vector<double> larger = read_tensor(x_);
  for (double& value : larger) value *= factor;
  write_tensor(x_, larger);
  const TTLinearForward second = forward();
  run(harness_.context(), Float8LinearForward{.linear = second, .scales = scales_, .options = {}});
  EXPECT_EQ(scales()[Float8Slots::x].scale * factor, before[Float8Slots::x].scale);
  EXPECT_EQ(scales()[Float8Slots::xa].scale * factor, before[Float8Slots::xa].scale);
  EXPECT_EQ(scales()[Float8Slots::a].scale, before[Float8Slots::a].scale);
  std::vector<double> expected = read_tensor(first.output[0].u);
  for (double& value : expected) value *= factor;
  EXPECT_EQ(read_tensor(second.output[0].u), expected);
}

// Evaluations must not change the history of delayed scales; current scales have none.
TEST_F(Float8Linears, AnEvaluationHasScalesOfItsOwnIfTheyAreCurrent) {
  const TTLinearForward exact = forward(), rounded = forward(), delayed = forward();
  run(harness_.context(), exact);
  run(harness_.context(),
      Float8LinearForward{
          .linear = delayed, .scales = scales_, .options = {.delayed = true, .record = false}});
  EXPECT_EQ(scales()[Float8Slots::x].scale, 1);
  EXPECT_EQ(scales()[Float8Slots::x].amax, 0);
  run(harness_.context(),
      Float8LinearForward{.linear = rounded, .scales = scales_, .options = {.record = false}});
  EXPECT_NE(scales()[Float8Slots::x].scale, 1);
  EXPECT_NEAR(error(rounded.output[0].u, exact.output[0].u), 0.053, 0.008);
}

// The recomputation in a feed-forward network's backward pass.
TEST_F(Float8Linears, OnceMoreIsTheSameToTheBit) {
  for (const bool delayed : {false, true}) {
    const TTLinearForward op = forward();
    const Float8LinearForward first{.linear = op, .scales = scales_, .options = {.delayed = delayed}};
    run(harness_.context(), first);
    const std::vector<double> u = read_tensor(op.output[0].u);
    const std::vector<Float8Scale> left = scales();
    TTLinearForward once_more = op;
    once_more.output[0].u = zeros({tokens, width});
    run(harness_.context(),
        Float8LinearForward{
            .linear = once_more, .scales = scales_, .options = {.delayed = delayed}, .again = true});
    EXPECT_EQ(read_tensor(once_more.output[0].u), u);
    for (int slot = 0; slot < Float8Slots::count; ++slot) {
      EXPECT_EQ(scales()[slot].scale, left[slot].scale) << slot;
      EXPECT_EQ(scales()[slot].amax, left[slot].amax) << slot;
    }
  }
}

// Of Q, K and V only V is left: its operands keep their slots.
TEST_F(Float8Linears, OutputsHaveTheirOwnSlots) {
  const TTLinearForward op = forward();
  run(harness_.context(),
      Float8LinearForward{.linear = op, .scales = scales_, .options = {}, .outputs = {2, 1, 0}});
  run(harness_.context(),
      Float8LinearBackward{
          .linear = backward(op.xa), .scales = scales_, .options = {}, .outputs = {2, 1, 0}});
  for (const int first : {Float8Slots::b, Float8Slots::du})
    for (int i = 0; i < max_group_outputs; ++i) EXPECT_EQ(scales()[first + i].amax > 0, i == 2) << first + i;
}

// Delayed scales are those of the steps before: with the first one, 1, small gradients are lost, and found
// once the history knows them.
TEST_F(Float8Linears, DelayedScalesLearnFromTheStepBefore) {
  const Float8Options options{.delayed = true};
  const Tensor history = harness_.tensor({Float8Slots::count, 4}, DType::float32),
               largest = harness_.tensor({Float8Slots::count}, DType::float32),
               position = harness_.tensor({1}, DType::int64);
  for (int slot = 0; slot < Float8Slots::count; ++slot)
    largest.data<float>()[slot] =
        Float8Slots::is_gradient(slot) ? float8_e5m2::largest : float8_e4m3::largest;
  const auto step = [&] {
    const TTLinearForward linear = forward();
    run(harness_.context(), Float8LinearForward{.linear = linear, .scales = scales_, .options = options});
    const TTLinearBackward slope = backward(linear.xa), exact = backward(linear.xa);
    run(harness_.context(), Float8LinearBackward{.linear = slope, .scales = scales_, .options = options});
    run(harness_.context(), exact);
    run(harness_.context(), Float8NextScales{.scales = scales_,
                                             .largest = largest,
                                             .history = history,
                                             .position = position,
                                             .results = harness_.step_results(),
                                             .margin = 0});
    return error(slope.output[0].db, exact.output[0].db);
  };
  harness_.results() = {};
  EXPECT_GT(step(), 0.5);
  EXPECT_LT(step(), 0.08);
  EXPECT_EQ(*position.data<std::int64_t>(), 2);
  const float amax = history.data<float>()[4 * Float8Slots::du];
  EXPECT_NEAR(amax, 4e-6, 2e-6) << "the largest of the gradients";
  EXPECT_EQ(scales()[Float8Slots::du].amax, 0) << "begun anew";
}

}  // namespace
}  // namespace comera::test
