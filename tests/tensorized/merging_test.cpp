#include "tensorized/fused/merging.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/cpu_backend.h"
#include "tensorized/fused/tt_feed_forward.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

constexpr std::int64_t hidden = 12, inner = 24, tokens = 9, layers = 3;

// Feed-forward layers one behind another, and what their gradients are.
struct Stack {
  explicit Stack(DType type) : compute(type) {
    for (int i = 0; i < layers; ++i) {
      const std::string name = fmt::format("layer{}", i);
      up.push_back(make_linear(
          store, {.name = name + ".up", .outputs = {""}, .input_size = hidden, .output_size = inner},
          {TTShape{{3, 4}, {4, 6}, {2, 3, 3}}}, PlanKind::factors));
      down.push_back(make_linear(
          store, {.name = name + ".down", .outputs = {""}, .input_size = inner, .output_size = hidden},
          {TTShape{{4, 6}, {4, 3}, {4, 2, 3}}}, PlanKind::factors));
      passes.emplace_back(store, *up[i]->as_tensor_train(), *down[i]->as_tensor_train());
    }
    store.allocate(host_allocator(), compute, true);
    store.initialize(7);
  }

  // Gradients of all parameters if merged gradients have so much memory, and how often it was emptied.
  std::pair<std::vector<double>, std::int64_t> gradients(std::int64_t most) {
    Harness harness(cpu_backend());
    const Context& context = harness.context();
    write_tensor(store.gradients(), std::vector<double>(store.gradients().elements(), 0));
    Tensor x = harness.random({tokens, hidden}, compute);
    const Tensor dy = harness.random({tokens, hidden}, compute),
                 dx = harness.tensor({tokens, hidden}, compute);
    std::vector<TTFeedForward::Merged> merged(layers);
    const Merging merging = merge_together(context, compute, [&](Merging& m) {
      for (int i = 0; i < layers; ++i) merged[i] = passes[i].merge(m);
    });
    std::vector<TTFeedForward::Saved> saved;
    for (int i = 0; i < layers; ++i) {
      saved.push_back(passes[i].forward(context, merged[i], x, Activation::gelu));
      x = saved.back().y;
    }
    ArenaScope scope(context.arena);
    MergedGradients of_merged(context, scope, merging, most);
    for (int i = layers; i-- > 0;)
      passes[i].backward(context, saved[i], Activation::gelu, dy, dx, false, of_merged);
    EXPECT_FALSE(of_merged.empty());
    of_merged.flush();
    EXPECT_TRUE(of_merged.empty());
    return {read_tensor(store.gradients()), of_merged.flushes()};
  }

  DType compute;
  ParameterStore store;
  std::vector<std::unique_ptr<Linear>> up, down;
  std::vector<TTFeedForward> passes;
};

// However much memory there is, down to that of a single layer, the gradients are the same to the bit.
TEST(Merging, GradientsAreTheSameTogetherAndLayerByLayer) {
  for (const DType compute : {DType::float32, DType::bfloat16}) {
    Stack stack(compute);
    const auto [together, once] = stack.gradients(std::int64_t{1} << 20);
    EXPECT_EQ(once, 1);
    EXPECT_GT(*std::ranges::max_element(together), 0);
    for (const std::int64_t most : {0, 1}) {  // with 1, what the tokens give waits as well
      const auto [one_by_one, often] = stack.gradients(most);
      EXPECT_EQ(often, layers);
      EXPECT_EQ(one_by_one, together);
    }
  }
}

// Layers take what they have counted, one piece behind the other, and what is narrow is computed wide.
TEST(Merging, TakesWhatWasCounted) {
  Harness harness(cpu_backend());
  const Context& context = harness.context();
  std::vector<Merging::Operands> got;
  const Merging merging = merge_together(context, DType::bfloat16, [&](Merging& m) {
    got = {m.take(3, DType::bfloat16), m.take(200, DType::bfloat16), m.take(5, DType::float32)};
    m.will_have_gradients(300);
    m.end_block();
    m.will_have_gradients(7);
    m.end_block();
    for (const auto& operands : got) m.clear(operands.computed);
    m.add_row(got[2].computed, got[1].computed.slice(0, {5}));
  });
  EXPECT_EQ(got[0].kept.dtype(), DType::bfloat16);
  EXPECT_EQ(got[0].computed.dtype(), DType::float32);
  EXPECT_EQ(got[2].kept.raw(), got[2].computed.raw());
  EXPECT_EQ(static_cast<std::byte*>(got[1].kept.raw()) - static_cast<std::byte*>(got[0].kept.raw()), 256);
  EXPECT_EQ(read_tensor(got[0].kept), std::vector<double>(3, 0));
  EXPECT_EQ(merging.gradients(), 384 + 128);
  EXPECT_EQ(merging.most_gradients(), 384);
  EXPECT_EQ(merging.most_of_a_block(), 384);
  EXPECT_EQ(merging.of_last_block(), 128);
  EXPECT_EQ(merging.gradients_at_once(0), 384);
  EXPECT_EQ(merging.gradients_at_once(400), 400);
  EXPECT_EQ(merging.gradients_at_once(1000), 512);
}

// A model without tensor trains takes no memory for them.
TEST(Merging, NothingTakesNothing) {
  Harness harness(cpu_backend());
  const std::size_t before = harness.context().arena.mark();
  const Merging merging = merge_together(harness.context(), DType::float32, [](Merging&) {});
  ArenaScope scope(harness.context().arena);
  MergedGradients gradients(harness.context(), scope, merging, 100);
  gradients.flush();
  EXPECT_EQ(gradients.flushes(), 0);
  EXPECT_EQ(harness.context().arena.mark(), before);
}

}  // namespace
}  // namespace comera::test
