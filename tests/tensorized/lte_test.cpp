#include "tensorized/linear/lte_linear.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/tensorized/factors.h"

namespace comera::test {
namespace {

struct Case {
  std::int64_t inputs, outputs, rank, heads, rows;  // rows of each head
  int group;                                        // outputs of the layer
};

// A layer whose parameters are all random numbers, as if it had been trained and merged.
struct Layer {
  explicit Layer(const Case& c, bool random = true)
      : form{.lora_r = c.rank, .lora_alpha = 2.5 * static_cast<double>(c.rank), .num_heads = c.heads},
        linear(make_linear(store, group_spec(c.group, c.inputs, c.outputs), form)) {
    store.allocate(host_allocator(), DType::float64, true);
    store.initialize(7);
    for (ParameterId id = 0; random && id < store.size(); ++id)
      write_tensor(store.value(id), normal_values(store.value(id).elements(), 100 + id));
  }
  std::string name(int i, const char* suffix) const { return linear->output_name(i) + suffix; }
  // A_hᵀ B_hᵀ, or A'_hᵀ B'_hᵀ, from the definition.
  Matrix adapter(int i, std::int64_t head, const char* a, const char* b) const {
    const std::int64_t n = linear->spec().input_size, m = linear->spec().output_size, r = form.lora_r;
    const Matrix of_a = matrix_of(store, name(i, a), r, head * r * n, n),
                 of_b = matrix_of(store, name(i, b), m, head * m * r, r);
    Matrix w(n, std::vector<double>(m, 0));
    for (std::int64_t x = 0; x < n; ++x)
      for (std::int64_t y = 0; y < m; ++y)
        for (std::int64_t k = 0; k < r; ++k) w[x][y] += of_a[k][x] * of_b[y][k];
    return w;
  }
  Matrix weight(int i) const { return matrix_of(store, name(i, ".weight"), linear->spec().input_size); }
  // W + share Σ s (A_hᵀ B_hᵀ - A'_hᵀ B'_hᵀ) over the heads from `begin` to `end`.
  Matrix seen(int i, std::int64_t begin, std::int64_t end, double share = 1) const {
    Matrix w = weight(i);
    for (std::int64_t head = begin; head < end; ++head) {
      const Matrix now = adapter(i, head, ".lora_a", ".lora_b"),
                   merged = adapter(i, head, ".merged_a", ".merged_b");
      for (std::size_t x = 0; x < w.size(); ++x)
        for (std::size_t y = 0; y < w[x].size(); ++y) w[x][y] += share * 2.5 * (now[x][y] - merged[x][y]);
    }
    return w;
  }

  ParameterStore store;
  LteForm form;
  std::unique_ptr<Linear> linear;
};

double distance(const Matrix& a, const Matrix& b) {
  std::vector<double> first, second;
  for (const auto& row : a) first.insert(first.end(), row.begin(), row.end());
  for (const auto& row : b) second.insert(second.end(), row.begin(), row.end());
  return relative_error(first, second);
}

class Lte : public testing::TestWithParam<Case> {};

// Every head's rows against x (W + s (A_hᵀ B_hᵀ - A'_hᵀ B'_hᵀ)) + b, and every gradient against central
// differences; what does not train sees W.
TEST_P(Lte, ForwardAndGradients) {
  const Case& c = GetParam();
  Layer layer(c);
  const std::int64_t tokens = c.heads * c.rows;
  LayerCheck training(*layer.linear, layer.store, tokens, {.activation = Activation::gelu}),
      evaluated(*layer.linear, layer.store, tokens, {.activation = Activation::gelu, .training = false});
  for (int i = 0; i < c.group; ++i) {
    EXPECT_LT(evaluated.forward_error(i, layer.weight(i), 0, tokens), 1e-12);
    for (std::int64_t head = 0; head < c.heads; ++head)
      EXPECT_LT(training.forward_error(i, layer.seen(i, head, head + 1), head * c.rows, (head + 1) * c.rows),
                1e-12)
          << "head " << head;
  }
  training.expect_gradients();
}

// W becomes the mean of what the heads see; A and B stay; then all heads see it.
TEST_P(Lte, AMergeIsTheMeanOfTheHeads) {
  const Case& c = GetParam();
  Layer layer(c);
  const std::int64_t tokens = c.heads * c.rows;
  std::vector<Matrix> expected;
  for (int i = 0; i < c.group; ++i)
    expected.push_back(layer.seen(i, 0, c.heads, 1.0 / static_cast<double>(c.heads)));
  const std::vector<double> trained = read_tensor(layer.store.values());
  Harness harness(reference_backend());
  layer.linear->consolidate(harness.context());
  EXPECT_EQ(read_tensor(layer.store.values()), trained);
  for (int i = 0; i < c.group; ++i) {
    EXPECT_LT(distance(layer.weight(i), expected[i]), 1e-12);
    for (const auto& [from, to] : {std::pair{".lora_a", ".merged_a"}, {".lora_b", ".merged_b"}})
      EXPECT_EQ(matrix_of(layer.store, layer.name(i, from), 1), matrix_of(layer.store, layer.name(i, to), 1));
  }
  LayerCheck check(*layer.linear, layer.store, tokens, {});
  for (int i = 0; i < c.group; ++i)
    EXPECT_LT(check.forward_error(i, expected[i], 0, tokens), 1e-12) << "a head sees something else";
  layer.linear->consolidate(harness.context());  // of nothing new
  for (int i = 0; i < c.group; ++i) EXPECT_LT(distance(layer.weight(i), expected[i]), 1e-12);
}

// At the start heads see W, exactly; every head has rows of its own at right angles.
TEST_P(Lte, BeginsAsItsDenseLayer) {
  const Case& c = GetParam();
  Layer layer(c, false);
  LayerCheck check(*layer.linear, layer.store, c.heads * c.rows, {});
  EXPECT_EQ(check.output({}), check.output({.training = false}));
  for (std::int64_t head = 0; head < c.heads; ++head) {
    const Matrix a =
        matrix_of(layer.store, layer.name(0, ".lora_a"), c.rank, head * c.rank * c.inputs, c.inputs);
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t j = 0; j < a.size(); ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < c.inputs; ++k) sum += a[i][k] * a[j][k];
        EXPECT_NEAR(sum, i == j ? static_cast<double>(c.inputs) / static_cast<double>(c.rank) : 0, 1e-12);
      }
    if (head == 0) continue;
    const Matrix first = matrix_of(layer.store, layer.name(0, ".lora_a"), c.rank, 0, c.inputs);
    EXPECT_GT(distance(a, first), 0.1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Lte,
                         testing::Values(Case{6, 5, 2, 3, 4, 1}, Case{6, 5, 1, 1, 7, 1},
                                         Case{5, 7, 5, 2, 3, 3}, Case{7, 3, 3, 5, 1, 2},
                                         Case{24, 8, 4, 4, 5, 1}));

TEST(LteLinear, OnlyAdaptersAreTrained) {
  Layer layer({6, 5, 2, 3, 1, 2});
  std::vector<std::string> trained;
  for (const ParameterId id : layer.store.layout()) trained.push_back(layer.store.info(id).name);
  EXPECT_THAT(trained, testing::ElementsAre("layer.query.lora_a", "layer.query.lora_b", "layer.key.lora_a",
                                            "layer.key.lora_b"));
  EXPECT_EQ(layer.store.count(ParameterRole::dense), 2 * 3 * (2 * 6 + 5 * 2));
  EXPECT_EQ(layer.store.count(ParameterRole::frozen), 2 * (6 * 5 + 5) + 2 * 3 * (2 * 6 + 5 * 2));
  EXPECT_EQ(layer.store.count(), 2 * (6 * 5 + 5) + 4 * 3 * (2 * 6 + 5 * 2));
  EXPECT_EQ(layer.store.gradients().elements(), layer.store.values().elements());
  EXPECT_LT(layer.store.values().elements(), layer.store.all_values().elements());
  EXPECT_FALSE(layer.store.gradient(layer.linear->bias()));
  EXPECT_FALSE(layer.store.gradient(*layer.store.find("layer.key.weight")));
  for (const ParameterRange& range : layer.store.block_ranges(0))
    EXPECT_LE(range.begin + range.count, layer.store.gradients().elements());
}

TEST(LteLinear, RefusesWhatCannotBe) {
  const auto refused = [](const std::string& what) {
    return testing::ThrowsMessage<Error>(testing::HasSubstr(what));
  };
  EXPECT_THAT([] { Layer({6, 4, 5, 2, 1, 1}); }, refused("layer: a matrix 6 x 4 has no adapters of rank 5"));
  EXPECT_THAT([] { Layer({6, 4, 2, 0, 1, 1}); }, refused("layer: 0 heads"));
  EXPECT_THAT(
      [] {
        const Layer layer({6, 4, 2, 2, 1, 1});
        Harness harness(reference_backend());
        layer.linear->forward(harness.context(), harness.random({5, 6}, DType::float64), {});
      },
      refused("layer: 5 rows cannot be divided into parts for 2 heads"));
}

}  // namespace
}  // namespace comera::test
