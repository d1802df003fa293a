#include "tensorized/decomposition/densify.h"

namespace comera {

std::vector<double> matrix_product(const std::vector<double>& a, const std::vector<double>& b,
                                   std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  std::vector<double> c(static_cast<std::size_t>(rows * columns), 0);
  for (std::int64_t i = 0; i < rows; ++i) {
    double* to = c.data() + i * columns;
    for (std::int64_t k = 0; k < inner; ++k) {
      const double factor = a[static_cast<std::size_t>(i * inner + k)];
      const double* from = b.data() + k * columns;
      for (std::int64_t j = 0; j < columns; ++j) to[j] += factor * from[j];
    }
  }
  return c;
}

std::vector<std::vector<double>> cores_with_gates(const ParameterStore& store,
                                                  const std::vector<ParameterId>& cores,
                                                  const std::vector<ParameterId>& gates) {
  std::vector<std::vector<double>> result;
  for (std::size_t k = 0; k < cores.size(); ++k) {
    result.push_back(read_tensor(store.value(cores[k]), store.allocator()));
    if (k == gates.size()) continue;
    const std::vector<double> gate = read_tensor(store.value(gates[k]), store.allocator());
    for (std::size_t i = 0; i < result[k].size(); ++i) result[k][i] *= gate[i % gate.size()];
  }
  return result;
}

// From the left: L (n_1…n_k, r_k) times the core as (r_k, s r) is L of the next core.
std::vector<double> densify(const ParameterStore& store, const TTCores& train) {
  const TTShape& shape = train.shape;
  if (shape.removed())
    return std::vector<double>(static_cast<std::size_t>(shape.input_size() * shape.output_size()), 0);
  const auto cores = cores_with_gates(store, train.cores, train.gates);
  std::vector<double> left{1};
  std::int64_t rows = 1;
  for (int k = 0; k < shape.order(); ++k) {
    left = matrix_product(left, cores[static_cast<std::size_t>(k)], rows, shape.rank(k),
                          shape.mode(k) * shape.rank(k + 1));
    rows *= shape.mode(k);
  }
  return left;
}

// The same, but a core adds a row mode and a column mode, which follow the earlier ones of their kind: (M, N,
// m, n, r) becomes (M, m, N, n, r).
std::vector<double> densify(const ParameterStore& store, const TTMCores& train, std::int64_t rows) {
  const TTMShape& shape = train.shape;
  const auto cores = cores_with_gates(store, train.cores, train.gates);
  std::vector<double> left{1};
  std::int64_t left_rows = 1, left_columns = 1;
  for (int k = 0; k < shape.order(); ++k) {
    const std::int64_t m = shape.row_modes[static_cast<std::size_t>(k)],
                       n = shape.column_modes[static_cast<std::size_t>(k)], width = n * shape.rank(k + 1);
    const std::vector<double> product = matrix_product(left, cores[static_cast<std::size_t>(k)],
                                                       left_rows * left_columns, shape.rank(k), m * width);
    left.resize(product.size());
    auto from = product.begin();
    for (std::int64_t row = 0; row < left_rows; ++row)
      for (std::int64_t column = 0; column < left_columns; ++column)
        for (std::int64_t digit = 0; digit < m; ++digit, from += width)
          std::copy(from, from + width, left.begin() + ((row * m + digit) * left_columns + column) * width);
    left_rows *= m;
    left_columns *= n;
  }
  left.resize(static_cast<std::size_t>(rows * left_columns));
  return left;
}

}  // namespace comera
