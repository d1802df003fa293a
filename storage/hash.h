#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace comera::storage {

// Scrambles all 64 bits (splitmix64's finaliser): every output bit depends on every input bit.
inline std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// A uniform number in [0, 1) from 64 random bits.
inline double unit_interval(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

// A 128-bit content hash: equal content has equal hashes, and different content practically never. Not
// resistant to deliberate collisions. The value is part of file formats and must not change.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  std::string hex() const;
  friend auto operator<=>(const Hash128&,
                          const Hash128&) = default;  // NOLINT(modernize-use-nullptr): a false alarm
};

Hash128 hash128(std::string_view bytes);

// A set of hashes in one flat table: 21 to 43 bytes per entry, for corpora of many millions of documents.
class HashSet {
 public:
  // False if it was already present.
  bool insert(Hash128 hash);
  bool contains(Hash128 hash) const;
  std::size_t size() const { return size_; }

 private:
  bool place(Hash128 hash);

  std::vector<Hash128> slots_;  // zero: free; its length is a power of two
  std::size_t size_ = 0;
};

}  // namespace comera::storage
