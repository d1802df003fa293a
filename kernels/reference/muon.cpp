#include "kernels/ops/optimizers/muon.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

// C = A B of row-major matrices, m x k and k x n.
template <class T>
std::vector<T> product(const std::vector<T>& a, const std::vector<T>& b, std::int64_t m, std::int64_t n,
                       std::int64_t k) {
  std::vector<T> c(m * n);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

template <class T>
double norm(const std::vector<T>& x) {
  double sum = 0;
  for (const T entry : x) sum += static_cast<double>(entry) * entry;
  return std::sqrt(sum);
}

// Q with Q X orthogonal, from G = X Xᵀ.
template <class T>
std::vector<T> orthogonalizer(std::vector<T> gram, std::int64_t side) {
  std::vector<T> q(side * side), polynomial(side * side);
  for (std::int64_t i = 0; i < side; ++i) q[i * side + i] = 1;
  for (int step = 0; step < muon_iterations; ++step) {
    const std::vector<T> square = product(gram, gram, side, side, side);
    for (std::int64_t i = 0; i < side * side; ++i)
      polynomial[i] = static_cast<T>(muon_b) * gram[i] + static_cast<T>(muon_c) * square[i];
    for (std::int64_t i = 0; i < side; ++i) polynomial[i * side + i] += static_cast<T>(muon_a);
    q = product(polynomial, q, side, side, side);
    gram = product(product(polynomial, gram, side, side, side), polynomial, side, side, side);
  }
  return q;
}

template <class T>
void update(const Muon& op, const MuonMatrix& matrix, T rate, T scale) {
  const std::int64_t rows = matrix.rows, columns = matrix.columns, count = rows * columns;
  T* p = op.parameters.data<T>() + matrix.offset;
  T* m = op.momentum.data<T>() + matrix.offset;
  const T* gradient = op.gradients.data<T>() + matrix.offset;
  const T beta = static_cast<T>(op.beta), rest = static_cast<T>(1 - op.beta);
  std::vector<T> x(count), transposed(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const T g = gradient[i] * scale;
    m[i] = beta * m[i] + rest * g;
    x[i] = beta * m[i] + rest * g;
  }
  const double length = norm(x);
  if (length < muon_least_norm) {
    std::ranges::fill(x, T(0));
  } else {
    for (T& entry : x) entry = static_cast<T>(entry / length);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) transposed[j * rows + i] = x[i * columns + j];
    x = rows <= columns ? product(orthogonalizer(product(x, transposed, rows, rows, columns), rows), x, rows,
                                  columns, rows)
                        : product(x, orthogonalizer(product(transposed, x, columns, columns, rows), columns),
                                  rows, columns, columns);
  }
  const T decay = static_cast<T>(matrix.decays != 0 ? op.weight_decay : 0);
  for (std::int64_t i = 0; i < count; ++i) p[i] -= rate * (x[i] + decay * p[i]);
}

template <class T>
void muon(const Muon& op, const KernelContext&) {
  const auto* matrices = static_cast<const MuonMatrix*>(op.matrices.raw());
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  const auto& results = *static_cast<const StepResults*>(op.results.raw());
  if (results.nonfinite != 0) return;
  for (std::int64_t i = 0; i < op.sizes.count; ++i)
    update(op, matrices[i], static_cast<T>(inputs.learning_rate[matrices[i].group]),
           static_cast<T>(results.gradient_scale));
}

template <class T>
void register_for(Backend& backend) {
  backend.set<Muon>(dtype_of<T>, muon<T>);
}

}  // namespace

void register_muon(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
