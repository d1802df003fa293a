#include "tests/cpu/float8_activation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "kernels/ops/bias_activation.h"
#include "kernels/ops/float8.h"
#include "tests/cpu/world.h"

namespace comera::test {

namespace {

using Scaling = Float8Quantize::Scaling;

constexpr std::int64_t rows = 90, columns = 86, ld = 91;  // tiles that end within a vector

// The smaller ones are those that a history or a scale may be made of.
std::vector<float> numbers(Scaling scaling) {
  std::mt19937 random(23);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> values;
  for (std::uint32_t i = 0; i < rows * ld; ++i) {
    const std::uint32_t word = i << 19;  // every exponent of either sign, exact in bfloat16
    float value;
    std::memcpy(&value, &word, sizeof value);
    values.push_back(scaling == Scaling::kept ? value : static_cast<float>(bfloat16(normal(random))));
  }
  std::ranges::shuffle(values, random);
  return values;
}

struct Quantized {
  DType type;
  Activation activation;
  Scaling scaling;

  // The outputs; `first`: the activation is a separate operation.
  std::vector<World::Output> by(const Backend& backend, Allocator& allocator, DType compute,
                                bool first) const {
    World world(backend, compute, allocator);
    Float8Quantize op;
    op.rows = rows, op.columns = columns, op.ld = ld, op.scaling = scaling;
    op.x = world.chosen("x", {rows, ld}, numbers(scaling));
    const Tensor scale = world.chosen_float("scale", {8, 0.125F, 0.5F, 0});
    op.scale = {scale.raw(), {sizeof(Float8Scale)}, DType::uint8, scale.device()};
    op.y = world.codes("y", {float8_padded(rows), float8_padded(columns)}, type);
    op.transposed = world.codes("transposed", {float8_padded(columns), float8_padded(rows)}, type);
    op.activation = first ? Activation::none : activation;
    if (first) {
      const Tensor u = op.x;
      op.x = world.input(u.shape());
      world.run(BiasActivationForward{.u = u, .bias = {}, .activation = activation, .y = op.x});
    }
    world.run(op);
    std::vector<World::Output> written = world.outputs();
    std::erase_if(written, [](const World::Output& output) { return output.name == "x"; });
    return written;
  }
};

void expect_equal(const std::vector<World::Output>& got, const std::vector<World::Output>& expected) {
  for (const World::Output& output : got) {
    EXPECT_FALSE(output.overrun) << output.name;
    if (output.bits.empty()) continue;  // an input
    const auto same = std::ranges::find(expected, output.name, &World::Output::name);
    ASSERT_NE(same, expected.end());
    const auto [at, wanted] = std::ranges::mismatch(output.bits, same->bits);
    EXPECT_TRUE(at == output.bits.end()) << output.name << " at byte " << at - output.bits.begin();
  }
}

}  // namespace

void expect_the_codes_of_an_activations_values(const Backend& backend, Allocator& allocator) {
  const bool narrow =
      backend.support(OperationIdOf<Float8Quantize>::value, DType::bfloat16) == Backend::Support::native;
  for (const DType type : {DType::float8_e4m3, DType::float8_e5m2})
    for (const Activation activation :
         {Activation::none, Activation::gelu, Activation::tanh, Activation::relu})
      for (const Scaling scaling : {Scaling::current, Scaling::delayed, Scaling::kept}) {
        SCOPED_TRACE(testing::Message()
                     << "type " << name_of(type) << ", activation " << static_cast<int>(activation)
                     << ", scaling " << static_cast<int>(scaling));
        const Quantized quantized{type, activation, scaling};
        const auto fused = quantized.by(backend, allocator, DType::float32, false);
        if (activation != Activation::none)
          expect_equal(fused, quantized.by(backend, allocator, DType::float32, true));
        if (narrow) expect_equal(quantized.by(backend, allocator, DType::bfloat16, false), fused);
      }
}

}  // namespace comera::test
