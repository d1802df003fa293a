#pragma once

#include <cstdint>

namespace comera::data {

// A pseudo-random order of 0 … count − 1 in a few words of memory: a Feistel network on the next even number
// of bits, iterated until the result is within the range (at most about 4 steps on average). Each index can
// be computed independently, so that resuming needs no shuffled array.
class Permutation {
 public:
  Permutation() = default;
  Permutation(std::int64_t count, std::uint64_t seed, std::int64_t epoch);
  std::int64_t operator[](std::int64_t place) const;
  std::int64_t count() const { return count_; }

 private:
  std::int64_t count_ = 0;
  std::uint64_t key_ = 0;
  int half_bits_ = 1;
};

}  // namespace comera::data
