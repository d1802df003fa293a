#include "tensorized/decomposition/factorize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/check.h"
#include "kernels/ops/tensor_trains/ttm_chain.h"

namespace comera {

namespace {

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Assigns the prime factors, the largest first, each to the smallest mode so far; among equal ones, to the
// one nearest to the middle.
std::vector<std::int64_t> column_modes(std::int64_t width, int cores) {
  std::vector<std::int64_t> factors;
  for (std::int64_t p = 2; width > 1; ++p)
    while (width % p == 0) factors.push_back(p), width /= p;
  std::vector<std::int64_t> modes(static_cast<std::size_t>(cores), 1);
  const auto from_middle = [&](std::size_t k) { return std::abs(2 * static_cast<int>(k) - (cores - 1)); };
  for (std::size_t i = factors.size(); i-- > 0;) {
    std::size_t best = 0;
    for (std::size_t k = 1; k < modes.size(); ++k)
      if (modes[k] < modes[best] || (modes[k] == modes[best] && from_middle(k) < from_middle(best))) best = k;
    modes[best] *= factors[i];
  }
  return modes;
}

// The largest possible ranks, up to `rank`.
std::vector<std::int64_t> ranks_for(const TTMShape& shape, std::int64_t rank) {
  std::vector<std::int64_t> ranks;
  for (int bond = 1; bond < shape.order(); ++bond) {
    double left = 1, right = 1;
    for (int k = 0; k < shape.order(); ++k)
      (k < bond ? left : right) *= static_cast<double>(shape.row_modes[k] * shape.column_modes[k]);
    ranks.push_back(static_cast<std::int64_t>(std::min({static_cast<double>(rank), left, right})));
  }
  return ranks;
}

// Middle modes are `middle`; the outer ones are chosen so that both outer cores have similar sizes.
TTMShape shape_with(std::int64_t rows, std::int64_t middle, const std::vector<std::int64_t>& columns,
                    std::int64_t rank) {
  TTMShape shape{.row_modes = std::vector(columns.size(), middle), .column_modes = columns, .ranks = {}};
  std::int64_t inner = 1;
  for (std::size_t k = 2; k < columns.size(); ++k) inner *= middle;
  const std::int64_t outer = divided_up(rows, inner);
  const double first =
      std::sqrt(static_cast<double>(outer * columns.back()) / static_cast<double>(columns.front()));
  shape.row_modes.front() = std::clamp<std::int64_t>(std::llround(first), 1, outer);
  shape.row_modes.back() = divided_up(outer, shape.row_modes.front());
  shape.row_modes.front() = divided_up(outer, shape.row_modes.back());
  shape.ranks = ranks_for(shape, rank);
  return shape;
}

}  // namespace

std::optional<TTMShape> factorize_table(std::int64_t rows, std::int64_t width, int cores, std::int64_t rank) {
  COMERA_CHECK(
      cores >= 2 && cores <= max_ttm_cores && rows > 0 && width > 0 && rank > 0,
      "a table of {} x {} cannot be {} cores of rank {}; choose 2 to 6 cores, and ranks of 1 or more", rows,
      width, cores, rank);
  const std::vector<std::int64_t> columns = column_modes(width, cores);
  std::optional<TTMShape> best;
  const auto most = static_cast<std::int64_t>(std::pow(static_cast<double>(rows), 1.0 / cores)) + 1;
  for (std::int64_t middle = 1; middle <= most; ++middle) {
    TTMShape shape = shape_with(rows, middle, columns, rank);
    if (!best || shape.core_parameters() < best->core_parameters()) best = std::move(shape);
    if (cores == 2) break;  // there is no middle
  }
  if (best->core_parameters() >= rows * width) return std::nullopt;
  return best;
}

namespace {
// The smaller one first.
std::vector<std::int64_t> two_modes(std::int64_t size) {
  std::int64_t small = 1;
  for (std::int64_t mode = 2; mode * mode <= size; ++mode)
    if (size % mode == 0) small = mode;
  return small == 1 ? std::vector{size} : std::vector{small, size / small};
}
}  // namespace

std::optional<TTShape> factorize_layer(std::int64_t inputs, std::int64_t outputs, std::int64_t rank) {
  COMERA_CHECK(inputs > 0 && outputs > 0 && rank > 0,
               "a layer of {} x {} cannot be a tensor train of rank {}; choose ranks of 1 or more", inputs,
               outputs, rank);
  TTShape shape{.input_modes = two_modes(inputs), .output_modes = two_modes(outputs), .ranks = {}};
  std::ranges::reverse(shape.output_modes);  // so that the largest modes meet in the middle
  std::int64_t left = 1, right = inputs * outputs;
  for (int core = 0; core + 1 < shape.order(); ++core) {
    left *= shape.mode(core), right /= shape.mode(core);
    shape.ranks.push_back(std::min({rank, left, right}));
  }
  if (shape.core_parameters() >= inputs * outputs) return std::nullopt;
  return shape;
}

}  // namespace comera
