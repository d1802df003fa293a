#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace comera::attack {

// The random choices of one try: a function of the seed, the kind, the try's number and the number of calls,
// so that a try can be repeated alone.
class Chance {
 public:
  Chance(std::uint64_t seed, std::string_view kind, std::uint64_t number)
      : key_(mix(seed ^ mix(name(kind) ^ mix(number)))) {}

  std::uint64_t bits() { return mix(key_ + ++asked_ * 0x9e3779b97f4a7c15u); }
  // At least 0 and below `count`, which is at least 1.
  std::size_t below(std::size_t count) { return bits() % count; }
  std::int64_t between(std::int64_t lowest, std::int64_t highest) {
    return lowest + static_cast<std::int64_t>(below(static_cast<std::size_t>(highest - lowest + 1)));
  }
  bool one_in(std::size_t count) { return below(count) == 0; }
  double share() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // in [0, 1)
  template <class List>
  auto pick(const List& list) {
    return *(std::begin(list) + static_cast<std::ptrdiff_t>(below(std::size(list))));
  }

 private:
  static std::uint64_t mix(std::uint64_t x) {  // splitmix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  static std::uint64_t name(std::string_view text) {  // FNV-1a
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
  }

  std::uint64_t key_;
  std::uint64_t asked_ = 0;
};

}  // namespace comera::attack
