#include "tensorized/linear/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/reference/reference_backend.h"
#include "tensorized/linear/tt_linear_layer.h"
#include "tests/support/harness.h"
#include "tests/tensorized/dense_oracle.h"

namespace comera::test {
namespace {

struct Case {
  std::vector<TTShape> shapes;  // of each output
  PlanKind plan;
  std::int64_t tokens;
};

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return fmt::format("{}_p{}_q{}_{}_outputs{}_{}", info.index, c.shapes[0].input_modes.size(),
                     c.shapes[0].output_modes.size(), name_of(c.plan), c.shapes.size(), c.tokens);
}

std::vector<Case> cases() {
  const std::vector<TTShape> shapes = {
      {{6}, {5}, {4}},        // order 1 and 1
      {{6}, {5}, {1}},        // rank 1
      {{2, 3}, {5}, {2, 4}},  // uneven orders
      {{5}, {3, 2}, {5, 2}},
      {{2, 3}, {3, 2}, {2, 5, 2}},
      {{3, 2, 2}, {2, 2, 3}, {3, 4, 5, 4, 3}},
      {{3, 2, 2}, {2, 2, 3}, {1, 1, 1, 1, 1}},
      {{2, 2, 2, 2}, {2, 1, 3, 2}, {2, 4, 5, 6, 5, 3, 2}},  // order 4, a mode of 1
  };
  std::vector<Case> list;
  for (const TTShape& shape : shapes)
    for (PlanKind plan : {PlanKind::factors, PlanKind::dense, PlanKind::modewise})
      for (int outputs : {1, 3}) list.push_back({std::vector(outputs, shape), plan, outputs == 1 ? 7 : 1});
  // Groups whose trains have ranks of their own, and modes.
  const std::vector<std::vector<TTShape>> groups = {
      {{{2, 3}, {3, 2}, {2, 5, 2}}, {{2, 3}, {3, 2}, {1, 1, 1}}, {{2, 3}, {3, 2}, {2, 3, 1}}},
      {{{3, 2, 2}, {2, 2, 3}, {1, 2, 3, 1, 2}},
       {{3, 2, 2}, {2, 2, 3}, {3, 4, 5, 4, 3}},
       {{3, 2, 2}, {2, 2, 3}, {2, 1, 2, 2, 1}}},
      {{{6}, {5}, {1}}, {{6}, {5}, {5}}},
      {{{2, 3}, {2, 2}, {2, 3, 2}}, {{6}, {4}, {3}}, {{3, 2}, {4}, {2, 1}}},
      // Some of them removed, or all.
      {{{2, 3}, {3, 2}, {0, 0, 0}}, {{2, 3}, {3, 2}, {1, 2, 1}}, {{2, 3}, {3, 2}, {2, 3, 1}}},
      {{{2, 3}, {3, 2}, {2, 5, 2}}, {{2, 3}, {3, 2}, {0, 0, 0}}, {{2, 3}, {3, 2}, {0, 0, 0}}},
      {{{2, 3}, {3, 2}, {0, 0, 0}}, {{2, 3}, {3, 2}, {0, 0, 0}}, {{2, 3}, {3, 2}, {2, 1, 2}}},
      {{{6}, {5}, {0}}, {{6}, {5}, {0}}, {{6}, {5}, {0}}},
      {{{2, 3}, {3, 2}, {0, 0, 0}}},
      // With diagonals: square, to more and to fewer outputs, of some, and where the train is removed.
      {{{2, 3}, {3, 2}, {2, 5, 2}, true}},
      {{{2, 3}, {4, 3}, {2, 5, 3}, true}},
      {{{4, 3}, {3, 2}, {4, 5, 2}, true}},
      {{{6}, {3}, {2}, true}, {{6}, {3}, {1}}, {{2, 3}, {3}, {2, 3}, true}},
      {{{4}, {8}, {3}, true}, {{4}, {8}, {0}, true}, {{4}, {8}, {0}}},
      {{{2, 3}, {3, 2}, {0, 0, 0}, true}},
      {{{8}, {4}, {0}, true}, {{8}, {4}, {0}, true}, {{8}, {4}, {0}}},
  };
  for (const auto& group : groups)
    for (PlanKind plan : {PlanKind::automatic, PlanKind::factors, PlanKind::dense, PlanKind::modewise})
      list.push_back({group, plan, 5});
  return list;
}

class TTLinearAgainstDense : public testing::TestWithParam<Case> {};

// Forward against x W + b with W straight from the definition; every gradient against central differences.
TEST_P(TTLinearAgainstDense, ForwardAndGradients) {
  const Case& c = GetParam();
  ParameterStore store;
  Linear::Spec spec{.name = "layer",
                    .outputs = {""},
                    .input_size = c.shapes[0].input_size(),
                    .output_size = c.shapes[0].output_size()};
  const int outputs = static_cast<int>(c.shapes.size());
  if (outputs > 1) spec.outputs = {"query", "key", "value"};
  spec.outputs.resize(outputs);
  const auto layer = make_linear(store, spec, c.shapes, c.plan);
  store.allocate(host_allocator(), DType::float64, true);
  store.initialize(7);
  disturb_gates(store);
  for (ParameterId id = 0; id < store.size(); ++id)
    if (store.info(id).role == ParameterRole::core)
      write_tensor(store.value(id), normal_values(store.value(id).elements(), 100 + id));
    else if (store.info(id).name.ends_with(".diagonal"))
      write_tensor(store.value(id), normal_values(store.value(id).elements(), 200 + id));
  Harness harness(reference_backend());
  const std::int64_t n = spec.input_size, m = spec.output_size;
  const Tensor x = harness.random({c.tokens, n}, DType::float64);
  std::array<Tensor, 3> weight;  // of the loss: sum of weight * y
  for (int i = 0; i < outputs; ++i) weight[i] = harness.random({c.tokens, m}, DType::float64);
  const auto loss = [&] {
    Arena& arena = harness.context().arena;
    const std::size_t mark = arena.mark();
    const auto saved = layer->forward(harness.context(), x, {.activation = Activation::gelu});
    double sum = 0;
    for (int i = 0; i < outputs; ++i)
      for (std::int64_t e = 0; e < c.tokens * m; ++e)
        sum += weight[i].data<double>()[e] * saved.output(i).data<double>()[e];
    arena.release(mark);
    return sum;
  };

  const auto saved = layer->forward(harness.context(), x, {.activation = Activation::gelu});
  for (int i = 0; i < outputs; ++i) {
    std::vector<double> w = by_definition(store, layer->as_tensor_train()->train(i));
    if (const auto diagonal = store.find(layer->output_name(i) + ".diagonal")) {
      EXPECT_TRUE(c.shapes[i].diagonal);
      for (std::int64_t a = 0; a < n; ++a)
        for (std::int64_t j = 0; j < m; ++j)
          if (n >= m ? a % m == j : j % n == a)
            w[a * m + j] += store.value(*diagonal).data<double>()[n >= m ? a : j];
    }
    EXPECT_LT(relative_error(layer->matrix(i), w), 1e-12);
    std::vector<double> expected;
    for (std::int64_t t = 0; t < c.tokens; ++t)
      for (std::int64_t j = 0; j < m; ++j) {
        double sum = store.value(layer->bias(i)).data<double>()[j];
        for (std::int64_t a = 0; a < n; ++a) sum += x.data<double>()[t * n + a] * w[a * m + j];
        expected.push_back(sum);
      }
    EXPECT_LT(relative_error(read_tensor(saved.u[i]), expected), 1e-12);
  }

  std::array<Tensor, 3> dy;
  for (int i = 0; i < outputs; ++i)
    dy[i] = harness.tensor({c.tokens, m}, DType::float64, read_tensor(weight[i]));
  const std::vector<double> start = normal_values(c.tokens * n, 5);
  const Tensor dx = harness.tensor({c.tokens, n}, DType::float64, start);
  layer->backward(harness.context(), saved, dy, dx, true);
  std::vector<double> added = read_tensor(dx);
  for (std::size_t i = 0; i < added.size(); ++i) added[i] -= start[i];
  write_tensor(dx, added);
  EXPECT_LT(finite_difference_error(x, dx, loss), 1e-7) << "dx";
  for (ParameterId id = 0; id < store.size(); ++id)
    EXPECT_LT(finite_difference_error(store.value(id), store.gradient(id), loss), 1e-6)
        << store.info(id).name;
}

INSTANTIATE_TEST_SUITE_P(All, TTLinearAgainstDense, testing::ValuesIn(cases()), name_of_case);

// Only the bias is left, and is a row of its own even where the layer does not add it.
TEST(TTLinear, ARemovedOneIsItsBias) {
  ParameterStore store;
  const auto layer = make_linear(store, {.name = "layer", .outputs = {""}, .input_size = 6, .output_size = 4},
                                 {TTShape{{2, 3}, {2, 2}, {0, 0, 0}}}, PlanKind::automatic);
  EXPECT_TRUE(layer->removed());
  EXPECT_EQ(layer->shape_text(0), "[2,3 | 2,2] removed");
  EXPECT_EQ(layer->explain(100, reference_backend().machine()),
            "layer: [2,3 | 2,2] removed, only the bias is computed\n");
  store.allocate(host_allocator(), DType::float64, true);
  ASSERT_EQ(store.size(), 1);
  EXPECT_EQ(store.info(0).name, "layer.bias");
  write_tensor(store.value(0), {1, 2, 3, 4});
  Harness harness(reference_backend());
  const Tensor x = harness.random({2, 6}, DType::float64), dx = harness.random({2, 6}, DType::float64);
  for (const bool biased : {false, true}) {
    const auto saved = layer->forward(harness.context(), x, {.biased = biased});
    const std::vector<double> row =
        biased ? std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4} : std::vector<double>(8, 0);
    EXPECT_EQ(read_tensor(saved.output()), row);
    layer->backward(harness.context(), saved,
                    {harness.tensor({2, 4}, DType::float64, {1, 2, 3, 4, 5, 6, 7, 8})}, dx, false);
    EXPECT_EQ(read_tensor(dx), std::vector<double>(12, 0));
    EXPECT_EQ(read_tensor(store.gradient(0)),
              biased ? (std::vector<double>{6, 8, 10, 12}) : std::vector<double>(4, 0));
  }
}

TEST(TTLinear, InitialisationHasTheStatedDeviation) {
  ParameterStore store;
  const TTShape shape{{12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12}};
  const TTCores train = TTCores::add(store, "layer", shape);
  store.allocate(host_allocator(), DType::float64, false);
  store.initialize(3);
  Harness harness(reference_backend());
  const Tensor a = harness.tensor({768, 30}, DType::float64), b = harness.tensor({30, 768}, DType::float64);
  merge_factors(harness.context(), store, train, a, 30, b);
  double squares = 0;
  for (int i = 0; i < 768; ++i)
    for (int j = 0; j < 768; ++j) {
      double w = 0;
      for (int r = 0; r < 30; ++r) w += a.data<double>()[i * 30 + r] * b.data<double>()[r * 768 + j];
      squares += w * w;
    }
  EXPECT_NEAR(std::sqrt(squares / (768.0 * 768.0)) * std::sqrt(1536.0), 1, 0.15);
}

}  // namespace
}  // namespace comera::test
