#include <gtest/gtest.h>

#include <cmath>

#include "kernels/core/tensors/parameter.h"
#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "tests/model/configs.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

using Values = std::vector<double>;

double norm(const Values& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

// A store with one matrix and one vector, by Muon in double precision.
class OneMatrix {
 public:
  OneMatrix(std::int64_t rows, std::int64_t columns,
            const OptimizerOptions& options = {.kind = OptimizerKind::muon}) {
    ParameterInfo matrix, vector;
    matrix.name = "matrix", matrix.role = ParameterRole::core, matrix.shape = {rows, columns};
    matrix.decays = true, matrix.matrix_rows = rows;
    vector.name = "vector", vector.shape = {5};
    matrix_ = store_.add(matrix), vector_ = store_.add(vector);
    store_.allocate(host_allocator(), DType::float64, true);
    optimizer_ = make_optimizer(store_, options, host_allocator());
  }
  Values matrix() const { return read_tensor(store_.value(matrix_)); }
  Values vector() const { return read_tensor(store_.value(vector_)); }
  void set(const Values& values) const { write_tensor(store_.value(matrix_), values); }
  // What a step with this gradient adds to the matrix.
  Values step(const Values& gradient, double rate) {
    const Values before = matrix();
    write_tensor(store_.gradient(matrix_), gradient);
    write_tensor(store_.gradient(vector_), {1, -2, 3, -4, 5});
    harness_.inputs() = {};
    harness_.inputs().learning_rate[0] = rate, harness_.inputs().learning_rate[2] = 0.25;
    harness_.results() = {};
    optimizer_->prepare(harness_.inputs(), update_++);
    optimizer_->apply(harness_.context(), harness_.step_inputs(), harness_.step_results());
    Values change = matrix();
    for (std::size_t i = 0; i < change.size(); ++i) change[i] -= before[i];
    return change;
  }

 private:
  ParameterStore store_;
  ParameterId matrix_ = 0, vector_ = 0;
  std::unique_ptr<Optimizer> optimizer_;
  Harness harness_{reference_backend(), std::size_t{1} << 20};
  std::int64_t update_ = 0;
};

struct Size {
  std::int64_t rows, columns;
};
const Size sizes[] = {{6, 6}, {4, 11}, {13, 3}, {1, 7}, {7, 1}};

Values transposed(const Values& x, std::int64_t rows, std::int64_t columns) {
  Values y(x.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) y[j * rows + i] = x[i * columns + j];
  return y;
}

Values product(const Values& a, const Values& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  Values c(m * n);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

// As the formula has it: on the whole matrix, by its rows.
Values orthogonalised(Values x, std::int64_t rows, std::int64_t columns) {
  const double length = norm(x);
  for (double& v : x) v /= length;
  for (int step = 0; step < 5; ++step) {
    const Values gram = product(x, transposed(x, rows, columns), rows, rows, columns);
    const Values first = product(gram, x, rows, columns, rows),
                 second = product(gram, first, rows, columns, rows);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] - 4.7750 * first[i] + 2.0315 * second[i];
  }
  return x;
}

TEST(MuonUpdate, IsTheFormula) {
  for (const auto& [rows, columns] : sizes) {
    SCOPED_TRACE(rows);
    OneMatrix one(rows, columns,
                  {.kind = OptimizerKind::muon, .momentum = 0.9, .weight_decay = 0.5, .decay_cores = true});
    const Values start = normal_values(rows * columns, 1);
    one.set(start);
    Values momentum(start.size());
    for (int number = 0; number < 3; ++number) {
      const Values gradient = normal_values(rows * columns, 2 + number), before = one.matrix();
      Values x = gradient;
      for (std::size_t i = 0; i < x.size(); ++i) {
        momentum[i] = 0.9 * momentum[i] + 0.1 * gradient[i];
        x[i] = 0.9 * momentum[i] + 0.1 * gradient[i];
      }
      const Values direction = orthogonalised(x, rows, columns);
      Values expected = before;
      for (std::size_t i = 0; i < x.size(); ++i) expected[i] = -0.1 * (direction[i] + 0.5 * before[i]);
      EXPECT_LT(relative_error(one.step(gradient, 0.1), expected), 1e-11) << "step " << number;
    }
  }
}

// Every singular value of a change is nearly the rate, whatever those of the gradient are.
TEST(MuonUpdate, IsNearlyOrthogonal) {
  for (const auto& [rows, columns] : sizes) {
    OneMatrix one(rows, columns);
    one.set(normal_values(rows * columns, 1));
    Values gradient = normal_values(rows * columns, 2);
    for (std::int64_t i = 0; i < rows; ++i)  // of very different rows
      for (std::int64_t j = 0; j < columns; ++j)
        gradient[i * columns + j] *= std::pow(0.6, static_cast<double>(i));
    const double rate = 0.01;
    Values change = one.step(gradient, rate);
    for (double& v : change) v /= rate;
    // The smaller side's gram matrix is nearly 1.
    const bool wide = rows <= columns;
    const std::int64_t side = std::min(rows, columns);
    const Values flipped = transposed(change, rows, columns);
    const Values gram =
        wide ? product(change, flipped, side, side, columns) : product(flipped, change, side, side, rows);
    for (std::int64_t i = 0; i < side; ++i)
      for (std::int64_t j = 0; j < side; ++j)
        EXPECT_NEAR(gram[i * side + j], i == j ? 1 : 0, 0.6) << rows << " x " << columns;
  }
}

// The gradient's length says nothing, nor do rows and columns of zeros.
TEST(MuonUpdate, KnowsNothingOfLengthsAndZeros) {
  const Values start = normal_values(12, 1), gradient = normal_values(12, 2);
  OneMatrix one(3, 4), scaled(3, 4), padded(5, 6);
  const auto pad = [](const Values& x) {
    Values y(30);
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j) y[(i + 1) * 6 + j] = x[i * 4 + j];
    return y;
  };
  one.set(start), scaled.set(start), padded.set(pad(start));
  Values times = gradient;
  for (double& v : times) v *= 1e-4;
  const Values change = one.step(gradient, 0.02);
  EXPECT_LT(relative_error(scaled.step(times, 0.02), change), 1e-12);
  EXPECT_LT(relative_error(padded.step(pad(gradient), 0.02), pad(change)), 1e-12);
}

TEST(MuonUpdate, LeavesTheRestToAdamW) {
  OneMatrix one(2, 3);
  one.step(normal_values(6, 1), 0.01);
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(one.vector()[i], i % 2 == 0 ? -0.25 : 0.25, 1e-8);
}

TEST(MuonUpdate, WithoutAGradientIsNothing) {
  OneMatrix one(3, 3);
  EXPECT_EQ(one.step(Values(9), 0.01), Values(9));
  EXPECT_GT(norm(one.step(normal_values(9, 1), 0.01)), 0.01) << "also of a matrix of zeros";
  EXPECT_GT(norm(one.step(Values(9), 0.01)), 0.01) << "the momentum goes on";
}

// What a model's layers say: hidden matrices are Muon's, whether dense or cores; embeddings, biases, norms,
// gates and a classifier are AdamW's.
TEST(MuonUpdate, IsOfHiddenMatrices) {
  for (const bool tensorized : {true, false}) {
    const EncoderConfig config = small_config(tensorized, HeadKind::classification);
    const Model model(config, host_allocator(), true);
    const ParameterStore& store = model.parameters();
    const OptimizerOptions muon{.kind = OptimizerKind::muon};
    int matrices = 0;
    for (ParameterId id = 0; id < store.size(); ++id) {
      const ParameterInfo& info = store.info(id);
      const bool of_layer = info.name.find(tensorized ? ".core." : ".weight") != std::string::npos &&
                            !info.name.starts_with("embedding") &&
                            info.name.find("norm") == std::string::npos &&
                            info.name != "head.classifier.weight";
      EXPECT_EQ(info.matrix_rows > 0, of_layer) << info.name;
      matrices += of_layer ? 1 : 0;
      const bool of_table = tensorized && info.name.starts_with("embedding.tokens.core");
      EXPECT_EQ(group_of(info, muon) == RateGroup::embedding, of_table) << info.name;
      if (of_layer) {
        EXPECT_EQ(group_of(info, muon), RateGroup::core) << info.name;
        EXPECT_EQ(info.shape.elements() % info.matrix_rows, 0) << info.name;
      }
    }
    EXPECT_EQ(matrices, tensorized ? 4 * 13 : 13) << "2 layers of 6, and the pooler";
  }
}

// The projection behind the embedding's train is a hidden matrix too, and no part of the embedding's rate.
TEST(MuonUpdate, IsOfTheEmbeddingsProjection) {
  const Model model(projected_config(), host_allocator(), true);
  const ParameterStore& store = model.parameters();
  const ParameterInfo& info = store.info(*store.find("embedding.tokens.projection"));
  EXPECT_EQ(info.matrix_rows, info.shape[0]);
  EXPECT_TRUE(info.decays);
  EXPECT_EQ(group_of(info, {.kind = OptimizerKind::muon}), RateGroup::core);
  EXPECT_EQ(group_of(info, {.kind = OptimizerKind::adamw}), RateGroup::other);
}

}  // namespace
}  // namespace comera::test
