#include "data/shards/permutation.h"

#include <bit>

#include "storage/hash.h"

namespace comera::data {

Permutation::Permutation(std::int64_t count, std::uint64_t seed, std::int64_t epoch)
    : count_(count), key_(storage::mix64(storage::mix64(seed) + static_cast<std::uint64_t>(epoch))) {
  const int bits = std::bit_width(static_cast<std::uint64_t>(count > 1 ? count - 1 : 1));
  half_bits_ = (bits + 1) / 2;
}

std::int64_t Permutation::operator[](std::int64_t place) const {
  constexpr int rounds = 6;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(place);
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t next =
          left ^ (storage::mix64(right ^ storage::mix64(key_ + static_cast<std::uint64_t>(round))) & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= static_cast<std::uint64_t>(count_));
  return static_cast<std::int64_t>(value);
}

}  // namespace comera::data
