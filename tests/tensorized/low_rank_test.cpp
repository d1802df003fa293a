#include "tensorized/linear/low_rank_linear.h"

#include <gmock/gmock.h>

#include <cmath>

#include "kernels/reference/reference_backend.h"
#include "tests/support/harness.h"
#include "tests/tensorized/factors.h"

namespace comera::test {
namespace {

struct Case {
  std::int64_t inputs, outputs, rank, tokens;
  int group;  // outputs of the layer
};

class LowRankAgainstDense : public testing::TestWithParam<Case> {};

// Forward against x (U V) + b; every gradient against central differences.
TEST_P(LowRankAgainstDense, ForwardAndGradients) {
  const Case& c = GetParam();
  ParameterStore store;
  const Linear::Spec spec = group_spec(c.group, c.inputs, c.outputs);
  const auto layer = make_linear(store, spec, LowRankForm{.rank = c.rank});
  store.allocate(host_allocator(), DType::float64, true);
  store.initialize(7);
  LayerCheck check(*layer, store, c.tokens, {.activation = Activation::gelu});
  for (int i = 0; i < c.group; ++i) {
    const Matrix u = matrix_of(store, layer->output_name(i) + ".u", c.inputs),
                 v = matrix_of(store, layer->output_name(i) + ".v", c.rank);
    EXPECT_LT(check.forward_error(i, product(u, v), 0, c.tokens), 1e-12);
  }
  check.expect_gradients();
}

INSTANTIATE_TEST_SUITE_P(All, LowRankAgainstDense,
                         testing::Values(Case{6, 5, 4, 7, 1}, Case{6, 5, 1, 1, 1}, Case{5, 7, 5, 13, 3},
                                         Case{1, 1, 1, 3, 2}, Case{8, 24, 8, 11, 1}));

TEST(LowRankLinear, BeginsWithTheDeviationOfADenseLayerAndIsSeenByMuonAsMatrices) {
  ParameterStore store;
  const auto layer = make_linear(store, {.name = "l", .outputs = {""}, .input_size = 300, .output_size = 500},
                                 LowRankForm{.rank = 40});
  EXPECT_EQ(layer->shape_text(0), "low rank 300 x 40 x 500");
  EXPECT_TRUE(layer->ranked_layers().empty());
  store.allocate(host_allocator(), DType::float64, false);
  store.initialize(3);
  const Matrix w = product(matrix_of(store, "l.u", 300), matrix_of(store, "l.v", 40));
  double squares = 0;
  for (const auto& row : w)
    for (const double value : row) squares += value * value;
  EXPECT_NEAR(std::sqrt(squares / (300 * 500)) * std::sqrt(800.0), 1, 0.05);
  EXPECT_EQ(store.info(*store.find("l.u")).matrix_rows, 300);
  EXPECT_EQ(store.info(*store.find("l.v")).matrix_rows, 40);
  EXPECT_TRUE(store.info(*store.find("l.u")).decays && store.info(*store.find("l.v")).decays);
}

TEST(LowRankLinear, RefusesRanksThatAMatrixCannotHave) {
  for (const std::int64_t rank : {0, 5}) {
    ParameterStore store;
    EXPECT_THAT(
        [&] {
          make_linear(store, {.name = "l", .outputs = {""}, .input_size = 6, .output_size = 4},
                      LowRankForm{.rank = rank});
        },
        testing::ThrowsMessage<Error>(testing::HasSubstr("l: a matrix 6 x 4 has no factors of rank")));
  }
}

}  // namespace
}  // namespace comera::test
