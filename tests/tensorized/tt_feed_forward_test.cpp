#include "tensorized/fused/tt_feed_forward.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/support/harness.h"
#include "tests/tensorized/dense_oracle.h"

namespace comera::test {
namespace {

TTFeedForward::Saved both_passes(const Context& context, const TTFeedForward& layers, Activation activation,
                                 const Tensor& x, const Tensor& dy, const Tensor& dx, bool accumulate_dx) {
  TTFeedForward::Merged merged;
  const Merging merging = merge_together(context, x.dtype(), [&](Merging& m) { merged = layers.merge(m); });
  TTFeedForward::Saved saved = layers.forward(context, merged, x, activation);
  ArenaScope scope(context.arena);
  MergedGradients gradients(context, scope, merging, 0);
  layers.backward(context, saved, activation, dy, dx, accumulate_dx, gradients);
  gradients.flush();
  return saved;
}

// One pass over both layers gives what one layer after the other gives.
TEST(TTFeedForward, IsOneLayerAfterTheOther) {
  constexpr std::int64_t tokens = 9, hidden = 12, inner = 24;
  ParameterStore store;
  const auto up =
      make_linear(store, {.name = "up", .outputs = {""}, .input_size = hidden, .output_size = inner},
                  {TTShape{{3, 4}, {4, 6}, {3, 5, 4}}}, PlanKind::factors);
  const auto down =
      make_linear(store, {.name = "down", .outputs = {""}, .input_size = inner, .output_size = hidden},
                  {TTShape{{4, 6}, {4, 3}, {4, 2, 3}}}, PlanKind::factors);
  store.allocate(host_allocator(), DType::float64, true);
  store.initialize(7);
  disturb_gates(store);
  for (ParameterId id = 0; id < store.size(); ++id)
    if (store.info(id).role == ParameterRole::core)
      write_tensor(store.value(id), normal_values(store.value(id).elements(), 100 + id));
  const TTFeedForward in_one_pass(store, *up->as_tensor_train(), *down->as_tensor_train());
  EXPECT_EQ(in_one_pass.why_not(reference_backend().machine(), tokens), std::nullopt);

  Harness harness(reference_backend());
  const Context& context = harness.context();
  const Tensor x = harness.random({tokens, hidden}, DType::float64);
  const Tensor dy = harness.random({tokens, hidden}, DType::float64);
  const Tensor dx = harness.random({tokens, hidden}, DType::float64);
  const std::vector<double> dx_before = read_tensor(dx), dy_before = read_tensor(dy);
  const auto saved = both_passes(context, in_one_pass, Activation::gelu, x, dy, dx, true);
  const std::vector<double> y = read_tensor(saved.y), dx_got = read_tensor(dx);
  const std::vector<double> gradients = read_tensor(store.gradients());
  EXPECT_EQ(read_tensor(dy), dy_before);

  write_tensor(dx, dx_before);
  write_tensor(store.gradients(), std::vector<double>(gradients.size(), 0));
  const auto first = up->forward(context, x, {.activation = Activation::gelu});
  const auto second = down->forward(context, first.output(), {.biased = false});
  const Tensor dinner = harness.tensor({tokens, inner}, DType::float64);
  down->backward(context, second, {dy}, dinner, false);
  up->backward(context, first, {dinner}, dx, true);
  EXPECT_LT(relative_error(y, read_tensor(second.output())), 1e-13);
  EXPECT_LT(relative_error(dx_got, read_tensor(dx)), 1e-13);
  EXPECT_LT(relative_error(gradients, read_tensor(store.gradients())), 1e-13);
}

// Two layers with 8-bit operands, of awkward ranks; tokens are no multiple of 16 either.
struct InFloat8 {
  static constexpr std::int64_t tokens = 21, hidden = 32, inner = 48;

  InFloat8(DType dtype, Float8Config::Scaling scaling)
      : scales({.scaling = scaling}, {"up", "down"}, host_allocator()) {
    up->use_float8({&scales, 0});
    down->use_float8({&scales, 1});
    store.allocate(host_allocator(), dtype, true);
    store.initialize(7);
    write_tensor(store.value(up->as_tensor_train()->bias()), normal_values(inner, 3));
    scales.record(true);
  }

  ParameterStore store;
  std::unique_ptr<Linear> up =
      make_linear(store, {.name = "up", .outputs = {""}, .input_size = hidden, .output_size = inner},
                  {TTShape{{4, 8}, {6, 8}, {3, 5, 4}}}, PlanKind::factors);
  std::unique_ptr<Linear> down =
      make_linear(store, {.name = "down", .outputs = {""}, .input_size = inner, .output_size = hidden},
                  {TTShape{{6, 8}, {4, 8}, {4, 7, 3}}}, PlanKind::factors);
  TTFeedForward in_one_pass{store, *up->as_tensor_train(), *down->as_tensor_train()};
  Float8State scales;
};

// The layers write the inner tensor before and after the activation, the one pass quantises it as it is made:
// to the same codes, and with them to the same bits of everything.
TEST(TTFeedForward, InFloat8IsOneLayerAfterTheOtherToTheBit) {
  constexpr std::int64_t tokens = InFloat8::tokens, hidden = InFloat8::hidden, inner = InFloat8::inner;
  for (const bool quick : {false, true})
    for (const auto scaling : {Float8Config::Scaling::current, Float8Config::Scaling::delayed})
      for (const Activation activation : all_activations) {
        SCOPED_TRACE(testing::Message() << (quick ? "cpu" : "plain") << ", " << name_of(scaling)
                                        << ", activation " << static_cast<int>(activation));
        const DType dtype = quick ? DType::float32 : DType::float64;
        InFloat8 layers(dtype, scaling), pass(dtype, scaling);
        Harness harness(quick ? cpu_backend() : reference_backend());
        const Context& context = harness.context();
        const Tensor x = harness.random({tokens, hidden}, dtype),
                     dy = harness.random({tokens, hidden}, dtype);
        const Tensor dx = harness.tensor({tokens, hidden}, dtype),
                     dinner = harness.tensor({tokens, inner}, dtype);

        const auto saved = both_passes(context, pass.in_one_pass, activation, x, dy, dx, false);
        ASSERT_TRUE(saved.float8);
        const std::vector<double> y = read_tensor(saved.y), dx_got = read_tensor(dx);

        const auto first = layers.up->forward(context, x, {.activation = activation});
        const auto second = layers.down->forward(context, first.output(), {.biased = false});
        layers.down->backward(context, second, {dy}, dinner, false);
        layers.up->backward(context, first, {dinner}, dx, false);
        EXPECT_EQ(y, read_tensor(second.output()));
        EXPECT_EQ(dx_got, read_tensor(dx));
        EXPECT_EQ(read_tensor(pass.store.gradients()), read_tensor(layers.store.gradients()));
        EXPECT_EQ(pass.scales.snapshot(), layers.scales.snapshot());
      }
}

// What is after the activation is nowhere.
TEST(TTFeedForward, InFloat8AnActivationTakesNoMemory) {
  std::size_t without = 0;
  for (const Activation activation : all_activations) {
    const InFloat8 layers(DType::float32, Float8Config::Scaling::current);
    Arena arena = Arena::measuring(host_allocator().device());
    const Context context{reference_backend(), arena, {}};
    const Shape shape{InFloat8::tokens, InFloat8::hidden};
    const Tensor x = arena.saved(shape, DType::float32), dy = arena.saved(shape, DType::float32);
    both_passes(context, layers.in_one_pass, activation, x, dy, arena.saved(shape, DType::float32), false);
    if (activation == Activation::none) without = arena.peak().total;
    EXPECT_EQ(arena.peak().total, without);
  }
}

}  // namespace
}  // namespace comera::test
