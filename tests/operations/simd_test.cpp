// Vectorised formulas against their definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/core/tensors/arena.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/attention/attention.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/elementwise/dropout.h"
#include "kernels/reference/reference_backend.h"
#include "tests/support/largest.h"

namespace comera {

namespace {
Context context_of(const Backend& backend) {
  static Arena arena(host_allocator(), Arena::Plan{1 << 20, 1 << 20, 1 << 20});
  return Context{backend, arena, {}};
}

// Largest error of an activation and of its derivative over [-12, 12].
struct Errors {
  double value = 0, derivative = 0;
};

template <class Value, class Derivative>
Errors sweep(Activation activation, const Value& value, const Derivative& derivative) {
  constexpr std::int64_t points = 200'001;
  std::vector<float> u(points), y(points), saved(points), dy(points, 1.F);
  for (std::int64_t i = 0; i < points; ++i) u[i] = static_cast<float>(-12 + 24. * i / (points - 1));
  const Shape shape{1, points};
  BiasActivationForward forward;
  forward.u = Tensor(u.data(), shape, DType::float32), forward.y = Tensor(y.data(), shape, DType::float32);
  forward.activation = activation;
  run(context_of(cpu_backend()), forward);
  BiasActivationBackward backward;
  backward.u = forward.u, backward.y = forward.y, backward.activation = activation;
  backward.dy = Tensor(dy.data(), shape, DType::float32);
  run(context_of(cpu_backend()), backward);
  Errors errors;
  for (std::int64_t i = 0; i < points; ++i) {
    errors.value = test::larger_or_nan(errors.value, std::abs(y[i] - value(static_cast<double>(u[i]))));
    errors.derivative =
        test::larger_or_nan(errors.derivative, std::abs(dy[i] - derivative(static_cast<double>(u[i]))));
  }
  return errors;
}

TEST(Activations, GeluIsWithinHalfAMillionth) {
  const auto cdf = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.)); };
  const Errors errors = sweep(
      Activation::gelu, [&](double x) { return x * cdf(x); },
      [&](double x) { return cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI); });
  EXPECT_LE(errors.value, 5e-7);
  EXPECT_LE(errors.derivative, 4e-7);
}

TEST(Activations, TanhIsWithinTwoTenMillionths) {
  const Errors errors = sweep(
      Activation::tanh, [](double x) { return std::tanh(x); },
      [](double x) { return 1 - std::tanh(x) * std::tanh(x); });
  EXPECT_LE(errors.value, 2e-7);
  EXPECT_LE(errors.derivative, 4e-7);
}

TEST(Activations, ThoseWithASigmoidAreWithinThreeMillionths) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const Errors silu = sweep(
      Activation::silu, [&](double x) { return x * sigmoid(x); },
      [&](double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); });
  EXPECT_LE(silu.value, 2e-6);
  EXPECT_LE(silu.derivative, 1e-6);
  const auto inner = [](double x) { return std::sqrt(8 / M_PI) * (x + 0.044715 * x * x * x); };
  const Errors gelu_tanh = sweep(
      Activation::gelu_tanh, [&](double x) { return x * sigmoid(inner(x)); },
      [&](double x) {
        const double s = sigmoid(inner(x));
        return s + x * s * (1 - s) * std::sqrt(8 / M_PI) * (1 + 3 * 0.044715 * x * x);
      });
  EXPECT_LE(gelu_tanh.value, 2e-6);
  EXPECT_LE(gelu_tanh.derivative, 3e-6);
}

TEST(Activations, OfTheLargestNumbersAreFinite) {
  for (const Activation activation : all_activations) {
    std::vector<float> u(32, std::numeric_limits<float>::max()), dy(32, 1.F), y(32);
    for (std::size_t i = 1; i < u.size(); i += 2) u[i] = -u[i];
    const Shape shape{1, 32};
    const auto tensor = [&](std::vector<float>& of) { return Tensor(of.data(), shape, DType::float32); };
    run(context_of(cpu_backend()),
        BiasActivationForward{.u = tensor(u), .bias = {}, .activation = activation, .y = tensor(y)});
    run(context_of(cpu_backend()),
        BiasActivationBackward{
            .u = tensor(u), .y = tensor(y), .activation = activation, .dy = tensor(dy), .dbias = {}});
    for (std::size_t i = 0; i < u.size(); ++i)
      EXPECT_TRUE(std::isfinite(y[i]) && std::isfinite(dy[i])) << traits_of(activation).name << " " << i;
    // Those that fall to 0 have done so.
    if (activation == Activation::none || activation == Activation::tanh) continue;
    for (std::size_t i = 1; i < u.size(); i += 2) EXPECT_EQ(y[i], 0) << traits_of(activation).name;
  }
}

TEST(Activations, OfNothingAreNothing) {
  for (const Activation activation : all_activations) {
    std::vector<float> u(5), y(5, 1.F);
    const Shape shape{1, 5};
    run(context_of(cpu_backend()), BiasActivationForward{.u = Tensor(u.data(), shape, DType::float32),
                                                         .bias = {},
                                                         .activation = activation,
                                                         .y = Tensor(y.data(), shape, DType::float32)});
    if (activation != Activation::none) EXPECT_EQ(y, u) << traits_of(activation).name;
  }
}

// A value that no backend has a case for.
TEST(Activations, UnknownOnesAreRefused) {
  const auto unknown = static_cast<Activation>(std::size(all_activations));
  std::vector<float> u(4), y(4);
  const Shape shape{1, 4};
  const Tensor some(u.data(), shape, DType::float32), other(y.data(), shape, DType::float32);
  EXPECT_THROW(run(context_of(cpu_backend()),
                   BiasActivationForward{.u = some, .bias = {}, .activation = unknown, .y = other}),
               Error);
  EXPECT_THROW(
      run(context_of(cpu_backend()),
          BiasActivationBackward{.u = some, .y = other, .activation = unknown, .dy = some, .dbias = {}}),
      Error);
  // And known ones without what their slope is computed from.
  for (const Activation activation : all_activations)
    if (activation != Activation::none)
      EXPECT_THROW(
          run(context_of(cpu_backend()),
              BiasActivationBackward{.u = {}, .y = {}, .activation = activation, .dy = some, .dbias = {}}),
          Error);
}

TEST(Activations, GeluOfTheLargestNumbersIsFinite) {
  std::vector<float> u(32, std::numeric_limits<float>::max()), y(32);
  for (std::size_t i = 1; i < u.size(); i += 2) u[i] = -u[i];
  const Shape shape{1, 32};
  run(context_of(cpu_backend()), BiasActivationForward{.u = Tensor(u.data(), shape, DType::float32),
                                                       .bias = {},
                                                       .activation = Activation::gelu,
                                                       .y = Tensor(y.data(), shape, DType::float32)});
  for (std::size_t i = 0; i < u.size(); ++i) EXPECT_EQ(y[i], i % 2 == 0 ? u[i] : 0.F) << i;
}

// In every place of a vector and in the rest of a row.
TEST(Activations, OfANaNAreNaNs) {
  constexpr std::int64_t count = 37;
  for (const Activation activation : all_activations) {
    if (activation == Activation::none) continue;
    for (std::int64_t at = 0; at < count; ++at) {
      std::vector<float> u(count, 0.5F), y(count);
      u[at] = std::numeric_limits<float>::quiet_NaN();
      const Shape shape{1, count};
      run(context_of(cpu_backend()), BiasActivationForward{.u = Tensor(u.data(), shape, DType::float32),
                                                           .bias = {},
                                                           .activation = activation,
                                                           .y = Tensor(y.data(), shape, DType::float32)});
      for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(std::isnan(y[i]), i == at) << i;
    }
  }
}

// Two keys, one of which has a score of 0: the probability of the other is that of a logistic regression. It
// may be off by what rounding of its score gives, and a few units in the last place.
TEST(Attention, ProbabilitiesAreAsExactAsTheirScores) {
  constexpr std::int64_t sequences = 2001;
  std::vector<float> q(2 * sequences, 1.F), k(2 * sequences), v(2 * sequences), out(2 * sequences),
      lse(2 * sequences);
  std::vector<std::int32_t> offsets(sequences + 1);
  for (std::int64_t s = 0; s < sequences; ++s) {
    k[2 * s + 1] = static_cast<float>(-85 + 170. * static_cast<double>(s) / (sequences - 1));
    v[2 * s + 1] = 1;
    offsets[s + 1] = static_cast<std::int32_t>(2 * (s + 1));
  }
  const Shape shape{2 * sequences, 1};
  AttentionForward op;
  op.q = Tensor(q.data(), shape, DType::float32), op.k = Tensor(k.data(), shape, DType::float32);
  op.v = Tensor(v.data(), shape, DType::float32), op.out = Tensor(out.data(), shape, DType::float32);
  op.log_sum_exp = Tensor(lse.data(), {1, 2 * sequences}, DType::float32);
  op.sequence_offsets = Tensor(offsets.data(), {sequences + 1}, DType::int32);
  op.heads = 1, op.longest = 2;
  run(context_of(cpu_backend()), op);
  for (std::int64_t s = 0; s < sequences; ++s) {
    const double score = k[2 * s + 1], expected = 1 / (1 + std::exp(-score));
    EXPECT_NEAR(out[2 * s], expected, expected * (6 + 1.25 * std::abs(score)) * 0x1p-24)
        << "of a score of " << score;
    const double sum = std::max(score, 0.) + std::log1p(std::exp(-std::abs(score)));
    EXPECT_NEAR(lse[2 * s], sum, (3 + std::abs(score)) * 0x1p-24) << "of a score of " << score;
  }
}

TEST(Dropout, DropsWhatTheDefinitionDrops) {
  constexpr std::int64_t elements = 100'003;
  StepInputs inputs;
  inputs.dropout = {0xfedcba9876543210ULL, 12345, 678};
  std::vector<float> x(elements, 1.F), y(elements);
  Dropout op;
  op.x = Tensor(x.data(), {elements}, DType::float32), op.y = Tensor(y.data(), {elements}, DType::float32);
  op.dropout = {0.3, 77};
  op.step_inputs = Tensor(&inputs, {sizeof inputs}, DType::uint8);
  run(context_of(cpu_backend()), op);
  for (std::int64_t i = 0; i < elements; ++i) {
    ASSERT_EQ(y[i] != 0, dropout_keeps(inputs.dropout, op.dropout, static_cast<std::uint64_t>(i))) << i;
  }
}
}  // namespace

}  // namespace comera
