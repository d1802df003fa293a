#include "data/batching/lookup_order.h"

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/core/check.h"

namespace comera::data {
namespace {

// Sorts `order` stably by key(order[i]), a number in [0, limit): a counting sort per digit of 11 bits.
template <class Key>
void radix_sort(std::span<std::int32_t> order, std::int64_t count, std::int64_t limit, Key&& key) {
  thread_local std::vector<std::int32_t> other;
  other.resize(static_cast<std::size_t>(count));
  constexpr int digit_bits = 11;
  constexpr std::int32_t digits = 1 << digit_bits;
  std::int32_t starts[digits];
  for (int shift = 0; shift < 32 && (limit - 1) >> shift > 0; shift += digit_bits) {
    const auto digit = [&](std::int32_t item) { return (key(item) >> shift) & (digits - 1); };
    std::fill(starts, starts + digits, 0);
    for (std::int64_t i = 0; i < count; ++i) ++starts[digit(order[i])];
    std::int32_t sum = 0;
    for (std::int32_t& start : starts) {
      const std::int32_t here = start;
      start = sum;
      sum += here;
    }
    for (std::int64_t i = 0; i < count; ++i) other[starts[digit(order[i])]++] = order[i];
    std::copy(other.begin(), other.end(), order.begin());
  }
}

std::span<std::int32_t> integers(const Tensor& tensor) {
  return {tensor.data<std::int32_t>(), static_cast<std::size_t>(tensor.elements())};
}

void fill_after(std::span<std::int32_t> values, std::int64_t count, std::int32_t value) {
  std::fill(values.begin() + std::min(count, std::ssize(values)), values.end(), value);
}

}  // namespace

std::int32_t order_ids(const LookupIds& lookup, std::int64_t count, std::int64_t right_rows,
                       const char* what) {
  const std::span<std::int32_t> ids = integers(lookup.ids), order = integers(lookup.unique_order),
                                unique_ids = integers(lookup.unique_ids),
                                offsets = integers(lookup.unique_offsets),
                                index = integers(lookup.unique_index), right = integers(lookup.right_order);
  const auto [smallest, largest] = std::minmax_element(ids.begin(), ids.begin() + count);
  COMERA_CHECK(count == 0 || *smallest >= 0, "a batch holds the {} {}, ids start at 0", what, *smallest);
  const std::int64_t limit = count == 0 ? 1 : std::int64_t{*largest} + 1;

  for (std::int64_t i = 0; i < count; ++i) order[i] = static_cast<std::int32_t>(i);
  radix_sort(order, count, limit, [&](std::int32_t place) { return ids[place]; });
  std::int32_t unique = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t id = ids[order[i]];
    if (i == 0 || id != unique_ids[unique - 1]) {
      COMERA_CHECK(unique < std::ssize(unique_ids),
                   "a batch has more distinct {}s than the {} it has room for", what, unique_ids.size());
      offsets[unique] = static_cast<std::int32_t>(i);
      unique_ids[unique++] = id;
    }
    index[order[i]] = unique - 1;
  }

  for (std::int32_t i = 0; i < unique; ++i) right[i] = i;
  if (right_rows > 0)
    radix_sort(right, unique, std::min(right_rows, limit),
               [&](std::int32_t i) { return static_cast<std::int32_t>(unique_ids[i] % right_rows); });

  fill_after(order, count, 0);
  fill_after(index, count, 0);
  fill_after(unique_ids, unique, 0);
  fill_after(right, unique, 0);
  fill_after(offsets, unique, static_cast<std::int32_t>(count));
  *lookup.unique_count.data<std::int32_t>() = unique;
  return unique;
}

}  // namespace comera::data
