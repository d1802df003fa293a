#include "kernels/ops/work.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/context.h"
#include "kernels/ops/layout.h"
#include "kernels/ops/matrix_product.h"
#include "kernels/ops/tt_feed_forward.h"
#include "kernels/ops/tt_linear.h"
#include "tests/cpu/world.h"

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

TEST(WorkOf, AttentionOfSharedKeys) {
  AttentionForward op;
  op.q = of({10, 6}), op.k = of({10 * 9}), op.v = of({10 * 9}), op.out = of({10, 15});
  op.log_sum_exp = of({3, 10});
  op.heads = 3, op.longest = 5;
  op.shared_keys = op.append_one = true, op.k_stride = op.v_stride = 9;
  EXPECT_EQ(work_of(op).flops, 2 * 10 * 5 * 3 * (2 + 4));
  EXPECT_EQ(work_of(op).bytes, 4 * (60 + 150 + 30 + 10 * (2 + 4)));
}

// A scope of the profile has the work of all its calls.
TEST(WorkOf, IsSummedInTheProfile) {
  World world(cpu_backend(), DType::float32);
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

}  // namespace
}  // namespace comera::test
