#include "storage/hash.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>
#include <utility>

namespace comera::storage {
namespace {

// The 128-bit product folded to 64 bits.
std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t load(const char* bytes, std::size_t count) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

}  // namespace

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 hash128(std::string_view bytes) {
  // Two lanes with different constants; the rotated lane keeps a word from cancelling its neighbour.
  std::uint64_t a = mix64(bytes.size());
  std::uint64_t b = mix64(~bytes.size());
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  const auto absorb = [&](std::uint64_t first, std::uint64_t second) {
    const std::uint64_t next =
        fold(first ^ a ^ 0xd6e8feb86659fd93ull, second ^ 0xa0761d6478bd642full) + std::rotl(b, 23);
    b = fold(second ^ b ^ 0xe7037ed1a0b428dbull, first ^ 0x8ebc6af09c88c6e3ull) + std::rotl(a, 41);
    a = next;
  };
  for (; left >= 16; at += 16, left -= 16) absorb(load(at, 8), load(at + 8, 8));
  if (left > 8)
    absorb(load(at, 8), load(at + 8, left - 8));
  else if (left > 0)
    absorb(load(at, left), 0);
  return {mix64(a ^ mix64(b)), mix64(b + mix64(a))};
}

bool HashSet::place(Hash128 hash) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash.low & mask;; at = (at + 1) & mask) {
    if (slots_[at] == hash) return false;
    if (slots_[at] == Hash128{}) {
      slots_[at] = hash;
      return true;
    }
  }
}

bool HashSet::contains(Hash128 hash) const {
  if (slots_.empty()) return false;
  if (hash == Hash128{}) hash.low = 1;  // as in insert()
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash.low & mask; slots_[at] != Hash128{}; at = (at + 1) & mask)
    if (slots_[at] == hash) return true;
  return false;
}

bool HashSet::insert(Hash128 hash) {
  if (hash == Hash128{}) hash.low = 1;  // zero marks a free slot
  if (4 * (size_ + 1) > 3 * slots_.size()) {
    std::vector<Hash128> old =
        std::exchange(slots_, std::vector<Hash128>(slots_.empty() ? 64 : 2 * slots_.size()));
    for (const Hash128& entry : old)
      if (entry != Hash128{}) place(entry);
  }
  const bool added = place(hash);
  size_ += added;
  return added;
}

}  // namespace comera::storage
