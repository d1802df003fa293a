#include "measurements/precision/linear_data.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "kernels/cpu/threads.h"
#include "storage/hash.h"

namespace comera {

namespace {

// Box-Muller: two numbers from the random bits of one index.
void draw_normal(std::vector<float>& values, std::uint64_t seed, double deviation) {
  const auto count = static_cast<std::int64_t>(values.size());
  constexpr std::int64_t piece = 1 << 16;
  cpu::parallel_pieces((count + piece - 1) / piece, cpu::thread_limit(), [&](std::int64_t p, int) {
    for (std::int64_t i = p * piece; i < std::min((p + 1) * piece, count); i += 2) {
      const std::uint64_t bits = storage::mix64(storage::mix64(seed) + static_cast<std::uint64_t>(i));
      const double first = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
      const double angle = 2 * std::numbers::pi * static_cast<double>(bits & 0xffffffffu) * 0x1p-32;
      const double radius = deviation * std::sqrt(-2 * std::log(first));
      values[i] = static_cast<float>(radius * std::cos(angle));
      if (i + 1 < count) values[i + 1] = static_cast<float>(radius * std::sin(angle));
    }
  });
}

std::vector<std::int64_t> spread(std::int64_t count, std::int64_t most) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(std::min(count, most)));
  for (std::size_t i = 0; i < places.size(); ++i)
    places[i] = static_cast<std::int64_t>(i) * count / static_cast<std::int64_t>(places.size());
  return places;
}

std::vector<std::int64_t> all(std::int64_t count) { return spread(count, count); }

// A row-major matrix and the selected rows of it.
struct Rows {
  const float* values;
  std::int64_t columns;
  const float* row(std::int64_t index) const { return values + index * columns; }
};

// These rows of x, times a matrix (x.columns, n): (rows, n).
template <class Left>
std::vector<double> product(const Left& x, const std::vector<std::int64_t>& rows, const float* matrix,
                            std::int64_t n) {
  std::vector<double> result(rows.size() * static_cast<std::size_t>(n));
  cpu::parallel_pieces(static_cast<std::int64_t>(rows.size()), cpu::thread_limit(), [&](std::int64_t r, int) {
    double* out = result.data() + r * n;
    for (std::int64_t k = 0; k < x.columns; ++k) {
      const double factor = x.row(rows[r])[k];
      for (std::int64_t j = 0; j < n; ++j) out[j] += factor * matrix[k * n + j];
    }
  });
  return result;
}

// The same with the matrix's transpose: matrix is (n, x.columns).
template <class Left>
std::vector<double> product_transposed(const Left& x, const std::vector<std::int64_t>& rows,
                                       const float* matrix, std::int64_t n) {
  std::vector<double> result(rows.size() * static_cast<std::size_t>(n));
  cpu::parallel_pieces(static_cast<std::int64_t>(rows.size()), cpu::thread_limit(), [&](std::int64_t r, int) {
    for (std::int64_t j = 0; j < n; ++j)
      result[r * n + j] =
          std::inner_product(x.row(rows[r]), x.row(rows[r]) + x.columns, matrix + j * x.columns, 0.0);
  });
  return result;
}

// Numbers in double, as a left operand.
struct DoubleRows {
  const double* values;
  std::int64_t columns;
  const double* row(std::int64_t index) const { return values + index * columns; }
};

// A block of aᵀ b, a (tokens, m) and b (tokens, n).
template <class A, class B>
std::vector<double> inner_block(const A* a, std::int64_t m, const B* b, std::int64_t n, std::int64_t tokens,
                                const Block& block) {
  std::vector<double> result(block.rows.size() * block.columns.size());
  const std::size_t width = block.columns.size();
  cpu::parallel_pieces(static_cast<std::int64_t>(block.rows.size()), cpu::thread_limit(),
                       [&](std::int64_t r, int) {
                         for (std::int64_t t = 0; t < tokens; ++t) {
                           const double factor = a[t * m + block.rows[r]];
                           for (std::size_t c = 0; c < width; ++c)
                             result[r * width + c] += factor * b[t * n + block.columns[c]];
                         }
                       });
  return result;
}

LinearValues exact_matrix(const LinearData& data, const LinearSample& sample) {
  const auto& [tokens, inputs, outputs, rank] = data.size;
  LinearValues exact;
  exact.y = product(Rows{data.x.data(), inputs}, sample.y.rows, data.w.data(), outputs);
  exact.dx = product_transposed(Rows{data.dy.data(), outputs}, sample.dx.rows, data.w.data(), inputs);
  exact.weights = {inner_block(data.x.data(), inputs, data.dy.data(), outputs, tokens, sample.weights[0])};
  return exact;
}

std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(matrix.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) result[c * rows + r] = matrix[r * columns + c];
  return result;
}

LinearValues exact_train(const LinearData& data, const LinearSample& sample) {
  const auto& [tokens, inputs, outputs, rank] = data.size;
  const std::vector<std::int64_t> every = all(tokens);
  const std::vector<double> xa = product(Rows{data.x.data(), inputs}, every, data.a.data(), rank);
  const std::vector<double> dxa =
      product_transposed(Rows{data.dy.data(), outputs}, every, data.b.data(), rank);
  const std::vector<float> a_transposed = transposed(data.a, inputs, rank);
  LinearValues exact;
  exact.y = product(DoubleRows{xa.data(), rank}, sample.y.rows, data.b.data(), outputs);
  exact.dx = product(DoubleRows{dxa.data(), rank}, sample.dx.rows, a_transposed.data(), inputs);
  exact.weights = {inner_block(data.x.data(), inputs, dxa.data(), rank, tokens, sample.weights[0]),
                   inner_block(xa.data(), rank, data.dy.data(), outputs, tokens, sample.weights[1])};
  return exact;
}

}  // namespace

LinearData::LinearData(const LinearSize& of)
    : size(of),
      x(static_cast<std::size_t>(of.tokens * of.inputs)),
      dy(static_cast<std::size_t>(of.tokens * of.outputs)),
      w(static_cast<std::size_t>(of.rank > 0 ? 0 : of.inputs * of.outputs)),
      a(static_cast<std::size_t>(of.inputs * of.rank)),
      b(static_cast<std::size_t>(of.rank * of.outputs)) {}

void LinearData::draw(std::uint64_t seed) {
  seed *= 8;
  draw_normal(x, seed, 1);
  draw_normal(dy, seed + 1, 1e-6);
  draw_normal(w, seed + 2, 0.03);
  draw_normal(a, seed + 3, 0.1);
  draw_normal(b, seed + 4, 0.2);
}

LinearSample::LinearSample(const LinearSize& size, std::int64_t most) {
  const auto tokens = spread(size.tokens, most), inputs = spread(size.inputs, most),
             outputs = spread(size.outputs, most);
  y = {tokens, all(size.outputs)};
  dx = {tokens, all(size.inputs)};
  if (size.rank == 0)
    weights = {{inputs, outputs}};
  else
    weights = {{inputs, all(size.rank)}, {all(size.rank), outputs}};
}

LinearValues exact_values(const LinearData& data, const LinearSample& sample) {
  return data.size.rank == 0 ? exact_matrix(data, sample) : exact_train(data, sample);
}

double relative_norm(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace comera
