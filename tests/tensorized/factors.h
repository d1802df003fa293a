#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/ops/layout.h"
#include "tensorized/linear.h"
#include "tests/support/harness.h"

namespace comera::test {

using Matrix = std::vector<std::vector<double>>;

// A parameter's values starting at `begin`, as the given number of rows of a matrix; columns 0: all.
inline Matrix matrix_of(const ParameterStore& store, const std::string& name, std::int64_t rows,
                        std::int64_t begin = 0, std::int64_t columns = 0) {
  const std::vector<double> values = read_tensor(store.value(*store.find(name)));
  if (columns == 0) columns = std::ssize(values) / rows;
  Matrix matrix;
  for (std::int64_t i = 0; i < rows; ++i)
    matrix.emplace_back(values.begin() + begin + i * columns, values.begin() + begin + (i + 1) * columns);
  return matrix;
}

inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size(), 0));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < b.size(); ++k)
      for (std::size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
  return c;
}

inline Linear::Spec group_spec(int outputs, std::int64_t inputs, std::int64_t columns) {
  Linear::Spec spec{.name = "layer", .outputs = {""}, .input_size = inputs, .output_size = columns};
  if (outputs > 1) spec.outputs = {"query", "key", "value"};
  spec.outputs.resize(outputs);
  return spec;
}

// A layer in double with a loss, the sum of random weights times its outputs.
class LayerCheck {
 public:
  LayerCheck(const Linear& layer, ParameterStore& store, std::int64_t tokens, const Linear::Pass& pass)
      : layer_(layer), store_(store), pass_(pass), harness_(plain_backend()) {
    x_ = harness_.random({tokens, layer.spec().input_size}, DType::float64);
    for (int i = 0; i < layer.outputs(); ++i)
      weight_[i] = harness_.random({tokens, layer.spec().output_size}, DType::float64);
    saved_ = layer.forward(harness_.context(), x_, pass);
  }

  const Context& context() const { return harness_.context(); }
  std::vector<double> output(const Linear::Pass& pass) {
    Arena& arena = harness_.context().arena;
    const std::size_t mark = arena.mark();
    std::vector<double> values = read_tensor(layer_.forward(harness_.context(), x_, pass).output());
    arena.release(mark);
    return values;
  }
  // The distance between x W + bias and the layer's output before its activation, for rows from `begin` to
  // `end`.
  double forward_error(int i, const Matrix& w, std::int64_t begin, std::int64_t end) const {
    const std::int64_t n = layer_.spec().input_size, m = layer_.spec().output_size;
    std::vector<double> expected, found;
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t j = 0; j < m; ++j) {
        double sum = store_.value(layer_.bias(i)).data<double>()[j];
        for (std::int64_t a = 0; a < n; ++a) sum += x_.data<double>()[t * n + a] * w[a][j];
        expected.push_back(sum);
        found.push_back(saved_.u[i].data<double>()[t * m + j]);
      }
    return relative_error(found, expected);
  }
  // Every gradient against central differences; that of x is both written and added.
  void expect_gradients() {
    const auto loss = [&] {
      Arena& arena = harness_.context().arena;
      const std::size_t mark = arena.mark();
      const auto saved = layer_.forward(harness_.context(), x_, pass_);
      double sum = 0;
      for (int i = 0; i < layer_.outputs(); ++i)
        for (std::int64_t e = 0; e < weight_[i].elements(); ++e)
          sum += weight_[i].data<double>()[e] * saved.output(i).data<double>()[e];
      arena.release(mark);
      return sum;
    };
    for (const bool accumulate : {false, true}) {
      std::array<Tensor, max_group_outputs> dy;
      for (int i = 0; i < layer_.outputs(); ++i)
        dy[i] = harness_.tensor(weight_[i].shape(), DType::float64, read_tensor(weight_[i]));
      const std::vector<double> start = normal_values(x_.elements(), 5);
      const Tensor dx = harness_.tensor(x_.shape(), DType::float64, start);
      run(harness_.context(), Fill{.x = store_.gradients(), .value = 0});
      layer_.backward(harness_.context(), saved_, dy, dx, accumulate);
      std::vector<double> found = read_tensor(dx);
      for (std::size_t i = 0; accumulate && i < found.size(); ++i) found[i] -= start[i];
      write_tensor(dx, found);
      EXPECT_LT(finite_difference_error(x_, dx, loss), 1e-7) << "dx, accumulate " << accumulate;
    }
    for (const ParameterId id : store_.layout())
      EXPECT_LT(finite_difference_error(store_.value(id), store_.gradient(id), loss), 1e-6)
          << store_.info(id).name;
  }

 private:
  const Linear& layer_;
  ParameterStore& store_;
  Linear::Pass pass_;
  Harness harness_;
  Tensor x_;
  std::array<Tensor, max_group_outputs> weight_;
  Linear::Saved saved_;
};

}  // namespace comera::test
