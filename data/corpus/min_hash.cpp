#include "data/corpus/min_hash.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "storage/hash.h"

namespace comera::data {
namespace {

bool is_name_byte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80) != 0;
}
bool is_space_byte(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Scrambles all bits (the finaliser of MurmurHash3), with operations that vectorise.
std::uint32_t mix32(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

std::uint64_t hash_of(std::string_view word) {
  std::uint64_t hash = word.size();
  for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return storage::mix64(hash);
}

}  // namespace

MinHash::MinHash() : seeds_() {
  for (int i = 0; i < functions; ++i)
    seeds_[i] = static_cast<std::uint32_t>(storage::mix64(static_cast<std::uint64_t>(i)));
}

std::optional<MinHash::Signature> MinHash::operator()(std::string_view text) {
  shingles_.clear();
  std::array<std::uint64_t, words_per_shingle> last{};
  std::size_t words = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (is_space_byte(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    if (is_name_byte(text[at]))
      while (end < text.size() && is_name_byte(text[end])) ++end;
    last[words++ % words_per_shingle] = hash_of(text.substr(at, end - at));
    at = end;
    if (words < words_per_shingle) continue;
    std::uint64_t shingle = 0;
    for (std::size_t i = 0; i < words_per_shingle; ++i)
      shingle = storage::mix64(shingle ^ last[(words + i) % words_per_shingle]);  // from the oldest on
    shingles_.push_back(static_cast<std::uint32_t>(shingle));
  }
  if (shingles_.empty()) return std::nullopt;
  std::ranges::sort(shingles_);
  shingles_.erase(std::unique(shingles_.begin(), shingles_.end()), shingles_.end());
  Signature smallest;
  smallest.fill(std::numeric_limits<std::uint32_t>::max());
  for (const std::uint32_t shingle : shingles_)
    for (int i = 0; i < functions; ++i) smallest[i] = std::min(smallest[i], mix32(shingle ^ seeds_[i]));
  return smallest;
}

double MinHash::similarity(const Signature& a, const Signature& b) {
  int equal = 0;
  for (int i = 0; i < functions; ++i) equal += a[i] == b[i];
  return static_cast<double>(equal) / functions;
}

bool MinHashIndex::insert(const MinHash::Signature& signature) {
  std::array<std::uint64_t, bands> keys;
  ++inserts_;
  for (int band = 0; band < bands; ++band) {
    keys[band] = static_cast<std::uint64_t>(band);
    for (int row = 0; row < rows; ++row)
      keys[band] = storage::mix64(keys[band] ^ signature[static_cast<std::size_t>(band * rows + row)]);
    const auto [begin, end] = with_band_[band].equal_range(keys[band]);
    for (auto candidate = begin; candidate != end; ++candidate) {
      const std::uint32_t number = candidate->second;
      if (compared_in_[number] == inserts_) continue;  // already compared in another band
      compared_in_[number] = inserts_;
      if (MinHash::similarity(signatures_[number], signature) >= similarity_) return false;
    }
  }
  const auto number = static_cast<std::uint32_t>(signatures_.size());
  for (int band = 0; band < bands; ++band) with_band_[band].emplace(keys[band], number);
  signatures_.push_back(signature);
  compared_in_.push_back(0);
  return true;
}

}  // namespace comera::data
