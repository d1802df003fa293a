#include "kernels/ops/work.h"
#include "kernels/ops/products/weight_gradients.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/attention/attention.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/embedding.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/tensor_trains/tt_factors.h"
#include "kernels/ops/tensor_trains/tt_feed_forward.h"
#include "kernels/ops/tensor_trains/tt_inner.h"
#include "kernels/ops/tensor_trains/tt_linear.h"
#include "tests/operations/op_test_context.h"

namespace comera::test {
namespace {

// A tensor of a shape, whose memory is never looked at.
Tensor of(Shape shape) {
  static std::byte memory[64];
  return {memory, shape, DType::float32};
}

TEST(WorkOf, MatrixProduct) {
  MatrixProduct op{.a = of({3, 5}), .b = of({5, 7}), .c = of({3, 7}), .m = 3, .n = 7, .k = 5};
  EXPECT_EQ(work_of(op).flops, 2 * 3 * 7 * 5);
  EXPECT_EQ(work_of(op).bytes, 4 * (15 + 35 + 21));
  op.accumulate = true;
  EXPECT_EQ(work_of(op).bytes, 4 * (15 + 35 + 2 * 21));
  op.batch = 10, op.stride_a = 15, op.stride_b = 35;  // ten products added to one C
  EXPECT_EQ(work_of(op).flops, 10 * 2 * 3 * 7 * 5);
  EXPECT_EQ(work_of(op).bytes, 4 * (150 + 350 + 2 * 21));
}

TEST(WorkOf, ABiasIsReadOnce) {
  const MatrixProduct product{.a = of({3, 5}), .b = of({5, 7}), .c = of({3, 7}), .m = 3, .n = 7, .k = 5};
  EXPECT_EQ(work_of(BiasedProduct{.product = product, .bias = of({7})}).flops, work_of(product).flops);
  EXPECT_EQ(work_of(BiasedProduct{.product = product, .bias = of({7})}).bytes,
            work_of(product).bytes + 4 * 7);
}

TEST(WorkOf, TTLinear) {
  TTLinearForward forward{.x = of({4, 6}), .a = of({6, 5}), .xa = of({4, 5}), .outputs = 1, .output = {}};
  forward.output[0] = {.b = of({3, 8}), .bias = of({8}), .u = of({4, 8}), .y = {}};
  EXPECT_EQ(work_of(forward).flops, 2 * 4 * (6 * 5 + 3 * 8));
  EXPECT_EQ(work_of(forward).bytes, 4 * (24 + 30 + 20 + 24 + 8 + 32));
}

TEST(WorkOf, FeedForwardBackwardComputesTheInnerTensorAgain) {
  const TTFeedForwardBackward op{.x = of({4, 6}),
                                 .a_up = of({6, 2}),
                                 .b_up = of({2, 9}),
                                 .bias = of({9}),
                                 .a_down = of({9, 3}),
                                 .b_down = of({3, 7}),
                                 .xa = of({4, 2}),
                                 .ha = of({4, 3}),
                                 .dy = of({4, 7}),
                                 .da_up = of({6, 2}),
                                 .db_up = of({2, 9}),
                                 .dbias = of({9}),
                                 .da_down = of({9, 3}),
                                 .db_down = of({3, 7}),
                                 .dx = of({4, 6}),
                                 .accumulate_dx = true};
  const int weights = 12 + 18 + 27 + 21;
  EXPECT_EQ(work_of(op).flops, 2 * 4 * (2 * weights + 18));
  EXPECT_EQ(work_of(op).bytes, 4 * (24 + weights + 9 + 8 + 12 + 28 + 2 * (weights + 9) + 2 * 24));
}

TEST(WorkOf, SeveralProductsAreTheirSum) {
  const MatrixProduct one{.a = of({3, 5}), .b = of({5, 7}), .c = of({3, 7}), .m = 3, .n = 7, .k = 5};
  EXPECT_EQ(work_of(MatrixProducts{{one, one}}).flops, 2 * work_of(one).flops);
  EXPECT_EQ(work_of(MatrixProducts{{one, one}}).bytes, 2 * work_of(one).bytes);
}

TEST(WorkOf, WeightGradientsAreTheirProductsAndBiases) {
  const WeightGradient one{.x = of({4, 3}),
                           .dy = of({4, 5}),
                           .dw = of({3, 5}),
                           .dbias = of({5}),
                           .rows = 4,
                           .inputs = 3,
                           .outputs = 5};
  EXPECT_EQ(work_of(WeightGradients{.gradients = {one, one}}).flops, 2 * 2 * 4 * 3 * 5);
  EXPECT_EQ(work_of(WeightGradients{.gradients = {one, one}}).bytes, 2 * 4 * (12 + 20 + 2 * (15 + 5)));
  const PartialSums sums{.parts = of({3, 8}), .count = 3, .apart = 8, .to = of({5})};
  EXPECT_EQ(work_of(WeightGradients{.sums = {sums}}).bytes, 4 * (3 * 5 + 2 * 5));
}

TEST(WorkOf, AttentionOfSharedKeys) {
  AttentionForward op;
  op.q = of({10, 6}), op.k = of({10 * 9}), op.v = of({10 * 9}), op.out = of({10, 15});
  op.log_sum_exp = of({3, 10});
  op.heads = 3, op.longest = 5;
  op.shared_keys = op.append_one = true, op.k_stride = op.v_stride = 9;
  EXPECT_EQ(work_of(op).flops, 2 * 10 * 5 * 3 * (2 + 4));
  EXPECT_EQ(work_of(op).bytes, 4 * (60 + 150 + 30 + 10 * (2 + 4)));
  // 3 sequences of 2 queries each: all rows of out are written.
  op.sequence_offsets = of({4}), op.queries = 2;
  EXPECT_EQ(work_of(op).flops, 2 * 6 * 5 * 3 * (2 + 4));
  EXPECT_EQ(work_of(op).bytes, 4 * (6 * 6 + 150 + 30 + 10 * (2 + 4)));
  op.queries = 5;  // of all rows
  EXPECT_EQ(work_of(op).flops, 2 * 10 * 5 * 3 * (2 + 4));
  EXPECT_EQ(work_of(op).inner, 10 * 5 * 3);
}

// Cores (1, 4, 3), (3, 5, 2) | (2, 6, 7), (7, 8, 1): A is L_1 S_2 and B is S_3 R_4.
TTCoreChain train() {
  TTCoreChain train{.order = 4, .inputs = 2, .core = {}, .gate = {}};
  train.core = {of({1, 4, 3}), of({3, 5, 2}), of({2, 6, 7}), of({7, 8, 1})};
  train.gate = {of({3}), of({2}), of({7})};
  return train;
}
constexpr int numbers_of_train = 12 + 30 + 84 + 56 + 3 + 2 + 7, products_of_train = 4 * 10 * 3 + 12 * 8 * 7;

TEST(WorkOf, FactorsOfTensorTrains) {
  TTFactorsForward forward;
  forward.factors.push_back({.train = train(), .a = of({20, 16}), .a_apart = 16, .b = of({2, 48})});
  EXPECT_EQ(work_of(forward).flops, 2 * products_of_train);
  EXPECT_EQ(work_of(forward).bytes, 4 * (numbers_of_train + 20 * 2 + 2 * 48));  // not what lies between rows
  forward.factors.push_back(forward.factors.front());
  EXPECT_EQ(work_of(forward).flops, 2 * 2 * products_of_train);

  TTFactorsBackward backward;
  backward.factors.push_back(
      {.train = train(), .da = of({20, 16}), .a_apart = 16, .db = of({2, 48}), .dcore = {}, .dgate = {}});
  backward.factors[0].dcore = train().core, backward.factors[0].dgate = train().gate;
  EXPECT_EQ(work_of(backward).flops, 2 * 2 * products_of_train);
  EXPECT_EQ(work_of(backward).bytes, 4 * (3 * numbers_of_train + 20 * 2 + 2 * 48));
}

TEST(WorkOf, TheInnerTensorIsNeverWritten) {
  const TTInnerForward forward{
      .xa = of({4, 2}), .b_up = of({2, 9}), .bias = of({9}), .a_down = of({9, 3}), .ha = of({4, 3})};
  EXPECT_EQ(work_of(forward).flops, 2 * 4 * (18 + 27));
  EXPECT_EQ(work_of(forward).bytes, 4 * (8 + 18 + 9 + 27 + 12));
  EXPECT_EQ(work_of(forward).inner, 4 * 9);
  const TTInnerBackward backward{.xa = of({4, 2}),
                                 .b_up = of({2, 9}),
                                 .bias = of({9}),
                                 .a_down = of({9, 3}),
                                 .dha = of({4, 3}),
                                 .db_up = of({2, 9}),
                                 .dbias = of({9}),
                                 .da_down = of({9, 3}),
                                 .dxa = of({4, 2})};
  EXPECT_EQ(work_of(backward).flops, 2 * 4 * (3 * 18 + 2 * 27));
  EXPECT_EQ(work_of(backward).inner, 4 * 9);
  EXPECT_EQ(work_of(backward).bytes, 4 * (8 + 18 + 9 + 27 + 12 + 8 + 2 * (18 + 9 + 27)));
}

TEST(WorkOf, RowsOfATableAreReadOnce) {
  EmbeddingSum op;
  op.y = of({10, 6}), op.rows = of({100, 6}), op.types = of({2, 6});
  op.index = op.position_ids = op.type_ids = of({10});
  EXPECT_EQ(work_of(op).bytes, 4 * (60 + 3 * 10 + 60 + 12));
  op.positions = of({7, 6});
  EXPECT_EQ(work_of(op).bytes, 4 * (60 + 3 * 10 + 60 + 12 + 42));
}

// A scope of the profile has the work of all its calls.
TEST(WorkOf, IsSummedInTheProfile) {
  OpTestContext world(cpu_backend(), DType::float32);
  const Add op{.x = world.input({33}), .y = world.output("y", {33})};
  profile_reset();
  Profiling profiling;
  world.run(op);
  world.run(op);
  profiling.finish();
  const auto entries = profile_entries();
  profile_reset();
  ASSERT_EQ(entries.size(), 1);
  EXPECT_EQ(entries[0].name, "Add");
  EXPECT_EQ(entries[0].calls, 2);
  EXPECT_EQ(entries[0].work.bytes, 2 * 3 * 33 * 4);
}

// Products in float32 run elsewhere than those in bfloat16.
TEST(WorkOf, TheProfileTellsWideProductsFromOthers) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    OpTestContext world(cpu_backend(), dtype);
    const MatrixProduct op{.a = world.input({3, 5}),
                           .b = world.input({5, 7}),
                           .c = world.output("c", {3, 7}),
                           .m = 3,
                           .n = 7,
                           .k = 5};
    profile_reset();
    Profiling profiling;
    world.run(op);
    profiling.finish();
    const auto entries = profile_entries();
    profile_reset();
    ASSERT_EQ(entries.size(), 1);
    EXPECT_EQ(entries[0].work.flops, 2 * 3 * 7 * 5);
    EXPECT_EQ(entries[0].work.wide_flops, dtype == DType::float32 ? 2 * 3 * 7 * 5 : 0);
  }
}

}  // namespace
}  // namespace comera::test
