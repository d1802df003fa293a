#include "tensorized/decomposition/tt_svd.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "kernels/core/check.h"
#include "tensorized/decomposition/svd.h"

namespace comera {

namespace {

std::int64_t product(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t cap_of(const TTSVDOptions& options, int bond) {
  return options.max_ranks.empty() ? std::numeric_limits<std::int64_t>::max() : options.max_ranks[bond];
}

// The sweep leaves orthonormal cores with the whole norm in the last one. Training needs equal norms.
void equalise(std::vector<std::vector<double>>& cores) {
  double logarithms = 0;
  for (const auto& core : cores) {
    const double norm = frobenius_norm(core);
    if (norm == 0) return;
    logarithms += std::log(norm);
  }
  const double norm = std::exp(logarithms / static_cast<double>(cores.size()));
  for (auto& core : cores) {
    const double factor = norm / frobenius_norm(core);
    for (double& value : core) value *= factor;
  }
}

// Shares of the squared error that make the tensor train small. Cutting direction i off at bond k costs
// σ_{k,i}² and saves about c_k = r_{k-1} s_k + s_{k+1} r_{k+1} elements; the best choice is to cut wherever
// σ_{k,i}² ≤ λ c_k, with the one λ that uses up the error. The spectra are those of the whole tensor's
// unfoldings, which bound those of the sweep; ranks and costs depend on one another and are updated
// alternately.
std::vector<double> smallest_shares(std::span<const double> tensor, const std::vector<std::int64_t>& sizes,
                                    const TTSVDOptions& options) {
  const int bonds = static_cast<int>(sizes.size()) - 1;
  const double budget = options.error * options.error;
  std::vector<std::vector<double>> squares(bonds);
  std::vector<std::int64_t> ranks(bonds);
  std::int64_t rows = 1;
  for (int k = 0; k < bonds; ++k) {
    rows *= sizes[k];
    squares[k] = squared_singular_values(tensor, rows, std::ssize(tensor) / rows);
    ranks[k] = std::ssize(squares[k]);
  }
  std::vector<double> cut_off(bonds);
  // The total cut off at this λ, given the costs c; the caps always apply.
  const auto cut_at = [&](double lambda, const std::vector<double>& costs) {
    double total = 0;
    for (int k = 0; k < bonds; ++k) {
      cut_off[k] = 0;
      ranks[k] = std::ssize(squares[k]);
      for (; ranks[k] > 1; --ranks[k]) {
        const double last = squares[k][ranks[k] - 1];
        if (last > lambda * costs[k] && ranks[k] <= cap_of(options, k)) break;
        cut_off[k] += last;
      }
      total += cut_off[k];
    }
    return total;
  };
  constexpr int rounds = 8, halvings = 60;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> costs(bonds);
    for (int k = 0; k < bonds; ++k)
      costs[k] = static_cast<double>((k > 0 ? ranks[k - 1] : 1) * sizes[k] +
                                     sizes[k + 1] * (k + 1 < bonds ? ranks[k + 1] : 1));
    double low = 0, high = 1;  // the tensor's norm is 1, so at λ = 1 everything possible is cut off
    for (int i = 0; i < halvings; ++i) {
      const double middle = (low + high) / 2;
      (cut_at(middle, costs) <= budget ? low : high) = middle;
    }
    cut_at(low, costs);
  }
  const double total = std::accumulate(cut_off.begin(), cut_off.end(), 0.0);
  if (total == 0) return std::vector<double>(bonds, 1.0 / std::max(bonds, 1));
  for (double& share : cut_off) share /= total;
  return cut_off;
}

std::vector<double> shares_of(std::span<const double> tensor, const std::vector<std::int64_t>& sizes,
                              const TTSVDOptions& options) {
  const std::size_t bonds = sizes.size() - 1;
  if (options.shares == ErrorShares::equal || options.error == 0 || bonds < 2)
    return std::vector<double>(bonds, 1.0 / static_cast<double>(std::max<std::size_t>(bonds, 1)));
  return smallest_shares(tensor, sizes, options);
}

// The product of cores [first, last): (r_first · sizes) × r_last.
std::vector<double> merge(const TTDecomposition& train, int first, int last) {
  std::vector<double> merged = train.cores[first];
  std::int64_t rows = train.rank(first) * train.sizes[first];
  for (int k = first + 1; k < last; ++k) {
    const std::int64_t width = train.sizes[k] * train.rank(k + 1);
    std::vector<double> next(rows * width);
    multiply(merged, train.cores[k], next, rows, width, train.rank(k));
    merged = std::move(next);
    rows *= train.sizes[k];
  }
  return merged;
}

}  // namespace

Cut cut(const std::vector<double>& values, double delta, std::int64_t cap) {
  Cut result{.rank = static_cast<std::int64_t>(values.size())};
  double squares = 0;
  while (result.rank > 1) {
    const double last = values[result.rank - 1];
    if (std::sqrt(squares + last * last) > delta && result.rank <= cap) break;
    squares += last * last;
    --result.rank;
  }
  result.tail = std::sqrt(squares);
  result.capped = result.tail > delta;
  return result;
}

std::int64_t TTDecomposition::rank(int bond) const {
  return bond == 0 || bond == static_cast<int>(sizes.size()) ? 1 : ranks[bond - 1];
}

TTDecomposition tt_svd(std::vector<double> tensor, const std::vector<std::int64_t>& sizes,
                       const TTSVDOptions& options) {
  const int order = static_cast<int>(sizes.size());
  COMERA_CHECK(order >= 1 && product(sizes) == static_cast<std::int64_t>(tensor.size()) && !tensor.empty(),
               "tt_svd: {} modes do not multiply to {} numbers", order, tensor.size());
  COMERA_CHECK(options.error >= 0, "tt_svd: the error must be at least 0, not {}", options.error);
  COMERA_CHECK(options.max_ranks.empty() || static_cast<int>(options.max_ranks.size()) == order - 1,
               "tt_svd: {} caps for {} bonds", options.max_ranks.size(), order - 1);
  COMERA_CHECK(std::ranges::all_of(options.max_ranks, [](std::int64_t cap) { return cap >= 1; }),
               "tt_svd: a bond cannot have a rank of less than 1");
  const double norm = frobenius_norm(tensor);
  COMERA_CHECK(std::isfinite(norm), "tt_svd: there are numbers that are not finite");
  TTDecomposition train{.sizes = sizes, .ranks = {}, .cores = {}};
  // Squared norms do not overflow in a tensor of norm 1; the norm is restored in the last core.
  if (norm > 0)
    for (double& value : tensor) value /= norm;
  const std::vector<double> shares = shares_of(tensor, sizes, options);
  double squares = 0, allowed_squares = 0;
  std::int64_t left = 1, rest = static_cast<std::int64_t>(tensor.size());
  for (int k = 0; k + 1 < order; ++k) {
    const std::int64_t rows = left * sizes[k];
    rest /= sizes[k];
    LeftBasis basis = left_basis(tensor, rows, rest);
    // Rounding errors of zero singular values.
    const double rounding =
        4 * std::numeric_limits<double>::epsilon() * std::sqrt(static_cast<double>(basis.count));
    // The total error allowed for the bonds so far, minus the error used; at least the bond's own share, if a
    // cap used more.
    const double share = options.error * options.error * shares[k];
    allowed_squares += share;
    const double allowed = std::sqrt(std::max(allowed_squares - squares, share));
    const Cut kept = cut(basis.norms, std::max(allowed, rounding), cap_of(options, k));
    squares += kept.tail * kept.tail;
    train.capped = train.capped || kept.capped;
    std::vector<double> core(rows * kept.rank);
    for (std::int64_t i = 0; i < rows; ++i)
      std::copy_n(basis.vectors.data() + i * basis.count, kept.rank, core.data() + i * kept.rank);
    train.cores.push_back(std::move(core));
    train.ranks.push_back(kept.rank);
    tensor = std::move(basis.projected);
    tensor.resize(kept.rank * rest);  // U_rᵀ C
    left = kept.rank;
  }
  for (double& value : tensor) value *= norm;
  train.cores.push_back(std::move(tensor));
  train.error = std::sqrt(squares);
  equalise(train.cores);
  return train;
}

std::vector<std::int64_t> tensor_sizes(const TTShape& shape) {
  std::vector<std::int64_t> sizes = shape.input_modes;
  sizes.insert(sizes.end(), shape.output_modes.begin(), shape.output_modes.end());
  return sizes;
}

std::vector<std::int64_t> tensor_sizes(const TTMShape& shape) {
  std::vector<std::int64_t> sizes;
  for (int k = 0; k < shape.order(); ++k) sizes.push_back(shape.row_modes[k] * shape.column_modes[k]);
  return sizes;
}

std::vector<double> table_as_tensor(std::span<const double> table, std::int64_t vocabulary,
                                    const TTMShape& shape) {
  const std::int64_t width = shape.columns();
  COMERA_CHECK(std::ssize(table) == vocabulary * width && vocabulary <= shape.rows(),
               "table_as_tensor: {} numbers of {} rows do not fit {}", table.size(), vocabulary,
               shape.text());
  // An entry's index is the sum of its row's and its column's contribution.
  const auto places = [&](const std::vector<std::int64_t>& modes, bool row) {
    std::vector<std::int64_t> place(product(modes), 0);
    for (std::int64_t index = 0; index < std::ssize(place); ++index) {
      std::int64_t left = index, stride = 1;
      for (int k = shape.order() - 1; k >= 0; --k) {
        place[index] += left % modes[k] * stride * (row ? shape.column_modes[k] : 1);
        left /= modes[k];
        stride *= shape.row_modes[k] * shape.column_modes[k];
      }
    }
    return place;
  };
  const std::vector<std::int64_t> rows = places(shape.row_modes, true),
                                  columns = places(shape.column_modes, false);
  std::vector<double> tensor(shape.rows() * width, 0.0);
  for (std::int64_t i = 0; i < vocabulary; ++i)
    for (std::int64_t j = 0; j < width; ++j) tensor[rows[i] + columns[j]] = table[i * width + j];
  return tensor;
}

std::vector<double> multiplied_out(const TTDecomposition& train) {
  return merge(train, 0, static_cast<int>(train.sizes.size()));
}

double relative_error(const TTDecomposition& train, std::span<const double> tensor) {
  const int order = static_cast<int>(train.sizes.size()), middle = (order + 1) / 2;
  const std::vector<double> left = merge(train, 0, middle);
  const std::vector<double> right = middle < order ? merge(train, middle, order) : std::vector<double>{1.0};
  const std::int64_t rank = train.rank(middle), rows = std::ssize(left) / rank,
                     columns = std::ssize(right) / rank;
  COMERA_CHECK(std::ssize(tensor) == rows * columns, "relative_error: a train of {} x {} and {} numbers",
               rows, columns, tensor.size());
  constexpr std::int64_t numbers_at_once = 1 << 22;
  const std::int64_t most = std::clamp<std::int64_t>(numbers_at_once / columns, 1, rows);
  std::vector<double> part(most * columns);
  double difference = 0;
  for (std::int64_t begin = 0; begin < rows; begin += most) {
    const std::int64_t count = std::min(most, rows - begin);
    const std::span<double> here = std::span(part).first(count * columns);
    multiply(std::span(left).subspan(begin * rank, count * rank), right, here, count, columns, rank);
    for (std::int64_t i = 0; i < count * columns; ++i) here[i] -= tensor[begin * columns + i];
    difference = std::hypot(difference, frobenius_norm(here));
  }
  const double norm = frobenius_norm(tensor);
  return difference / (norm > 0 ? norm : 1);
}

}  // namespace comera
