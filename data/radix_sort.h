#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace comera::data {

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

}  // namespace comera::data
