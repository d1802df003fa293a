#include "tensorized/decomposition/shapes.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/core/check.h"
#include "kernels/ops/tensor_trains/tt_factors.h"

namespace comera {

namespace {

std::int64_t product(const std::vector<std::int64_t>& values, std::size_t begin, std::size_t end) {
  std::int64_t result = 1;
  for (std::size_t i = begin; i < end; ++i) result *= values[i];
  return result;
}

std::int64_t product(const std::vector<std::int64_t>& values) { return product(values, 0, values.size()); }

std::int64_t rank_at(const std::vector<std::int64_t>& ranks, int bond) {
  if (bond == 0 || bond == static_cast<int>(ranks.size()) + 1) return 1;
  return ranks[bond - 1];
}

void check_positive(const std::string& layer, const char* what, const std::vector<std::int64_t>& values) {
  COMERA_CHECK(!values.empty() && std::ranges::all_of(values, [](auto v) { return v > 0; }),
               "{}: {} must be a non-empty list of positive numbers, not [{}]", layer, what,
               fmt::join(values, ", "));
}

// sizes[k]: the number of indices of core k. A bond's rank never needs to be larger than either side of it.
void check_ranks(const std::string& layer, const std::vector<std::int64_t>& sizes,
                 const std::vector<std::int64_t>& ranks, bool removed = false) {
  COMERA_CHECK(ranks.size() + 1 == sizes.size(), "{}: {} modes need {} ranks, but {} are given", layer,
               sizes.size(), sizes.size() - 1, ranks.size());
  if (removed) return;
  for (std::size_t bond = 1; bond < sizes.size(); ++bond) {
    const std::int64_t largest = std::min(product(sizes, 0, bond), product(sizes, bond, sizes.size()));
    COMERA_CHECK(ranks[bond - 1] >= 1 && ranks[bond - 1] <= largest,
                 "{}: rank {} of bond {} is impossible; choose 1 to {}", layer, ranks[bond - 1], bond,
                 largest);
  }
}

}  // namespace

std::int64_t TTShape::input_size() const { return product(input_modes); }
std::int64_t TTShape::output_size() const { return product(output_modes); }

std::int64_t TTShape::mode(int core) const {
  const int inputs = static_cast<int>(input_modes.size());
  return core < inputs ? input_modes[core] : output_modes[core - inputs];
}

std::int64_t TTShape::rank(int bond) const { return rank_at(ranks, bond); }

std::int64_t TTShape::core_parameters() const {
  std::int64_t total = 0;
  for (int k = 0; k < order(); ++k) total += rank(k) * mode(k) * rank(k + 1);
  return total;
}

std::int64_t TTShape::gates() const {
  std::int64_t total = 0;
  for (auto rank : ranks) total += rank;
  return total;
}

bool TTShape::removed() const {
  return !ranks.empty() && std::ranges::all_of(ranks, [](auto rank) { return rank == 0; });
}

std::string TTShape::text() const {
  const std::string modes =
      fmt::format("[{} | {}]", fmt::join(input_modes, ","), fmt::join(output_modes, ","));
  const std::string train = removed() ? " removed" : fmt::format(" ranks {}", fmt::join(ranks, ","));
  return modes + train + (diagonal ? " and a diagonal" : "");
}

void TTShape::validate(const std::string& layer, std::int64_t inputs, std::int64_t outputs) const {
  check_positive(layer, "input_modes", input_modes);
  check_positive(layer, "output_modes", output_modes);
  COMERA_CHECK(
      order() <= max_tt_cores,
      "{}: {} input and output modes make {} cores; at most {} are possible, so use fewer, larger modes",
      layer, order(), order(), max_tt_cores);
  COMERA_CHECK(input_size() == inputs, "{}: the input modes [{}] multiply to {}, but the layer has {} inputs",
               layer, fmt::join(input_modes, ", "), input_size(), inputs);
  COMERA_CHECK(output_size() == outputs,
               "{}: the output modes [{}] multiply to {}, but the layer has {} outputs", layer,
               fmt::join(output_modes, ", "), output_size(), outputs);
  std::vector<std::int64_t> sizes = input_modes;
  sizes.insert(sizes.end(), output_modes.begin(), output_modes.end());
  check_ranks(layer, sizes, ranks, removed());
  COMERA_CHECK(!diagonal || std::max(inputs, outputs) % std::min(inputs, outputs) == 0,
               "{}: a diagonal needs sizes of which one divides the other, not {} and {}; remove it", layer,
               inputs, outputs);
}

std::int64_t TTMShape::rows() const { return product(row_modes); }
std::int64_t TTMShape::columns() const { return product(column_modes); }
std::int64_t TTMShape::rank(int bond) const { return rank_at(ranks, bond); }

std::int64_t TTMShape::core_parameters() const {
  std::int64_t total = 0;
  for (int k = 0; k < order(); ++k) total += rank(k) * row_modes[k] * column_modes[k] * rank(k + 1);
  return total;
}

std::int64_t TTMShape::gates() const {
  std::int64_t total = 0;
  for (auto rank : ranks) total += rank;
  return total;
}

std::int64_t TTMShape::right_rows() const { return product(row_modes, left_cores(), row_modes.size()); }

std::string TTMShape::text() const {
  const std::string own = frequent_rows > 0 ? fmt::format(", {} rows of their own", frequent_rows) : "";
  return fmt::format("[{}] x [{}] ranks {}{}{}", fmt::join(row_modes, ","), fmt::join(column_modes, ","),
                     fmt::join(ranks, ","), own, projection ? ", projected" : "");
}

void TTMShape::validate(const std::string& layer, std::int64_t vocabulary, std::int64_t width) const {
  check_positive(layer, "row_modes", row_modes);
  check_positive(layer, "column_modes", column_modes);
  COMERA_CHECK(row_modes.size() == column_modes.size(),
               "{}: {} row modes and {} column modes; there must be as many", layer, row_modes.size(),
               column_modes.size());
  COMERA_CHECK(projection || columns() == width,
               "{}: the column modes [{}] multiply to {}, but the width is {}", layer,
               fmt::join(column_modes, ", "), columns(), width);
  COMERA_CHECK(
      !projection || columns() < width,
      "{}: the column modes [{}] multiply to {}, but a projection needs fewer columns than the width of "
      "{}; choose smaller column modes, or remove projection",
      layer, fmt::join(column_modes, ", "), columns(), width);
  COMERA_CHECK(frequent_rows >= 0 && frequent_rows < rows(),
               "{}: {} frequent rows of {}: the train needs rows too; choose fewer", layer, frequent_rows,
               rows());
  COMERA_CHECK(
      rows() >= vocabulary,
      "{}: the row modes [{}] multiply to {}, fewer than the vocabulary of {}; choose larger row modes",
      layer, fmt::join(row_modes, ", "), rows(), vocabulary);
  std::vector<std::int64_t> sizes;
  for (int k = 0; k < order(); ++k) sizes.push_back(row_modes[k] * column_modes[k]);
  check_ranks(layer, sizes, ranks);
}

}  // namespace comera
