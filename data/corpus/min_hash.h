#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace comera::data {

// MinHash (Broder, 1997): the smallest value of each of 128 hash functions over all shingles of a text. A
// shingle is five consecutive words; a word is a name, a number or any other single character. The share of
// positions where two signatures agree estimates the Jaccard similarity of the two sets of shingles; its
// standard error is at most 0.044.
class MinHash {
 public:
  static constexpr int functions = 128;
  static constexpr int words_per_shingle = 5;
  using Signature = std::array<std::uint32_t, functions>;

  MinHash();
  // None for a text with fewer than five words.
  std::optional<Signature> operator()(std::string_view text);
  static double similarity(const Signature& a, const Signature& b);

 private:
  Signature seeds_;
  std::vector<std::uint32_t> shingles_;  // of the text
};

// Signatures without similar pairs, found by locality-sensitive hashing: 16 bands of 8 positions. Two texts
// of similarity s share a band with probability 1 - (1 - s^8)^16, which is 0.61 at 0.7, 0.95 at 0.8 and
// 0.9999 at 0.9. Memory: about 1.2 kB for each.
class MinHashIndex {
 public:
  // similarity: the threshold at which two are too similar.
  explicit MinHashIndex(double similarity) : similarity_(similarity) {}
  // False if a similar one is present.
  bool insert(const MinHash::Signature& signature);

 private:
  static constexpr int bands = 16;
  static constexpr int rows = MinHash::functions / bands;

  double similarity_;
  std::vector<MinHash::Signature> signatures_;
  std::vector<std::uint32_t> compared_in_;  // per signature: the last insert() that compared it
  std::uint32_t inserts_ = 0;
  std::array<std::unordered_multimap<std::uint64_t, std::uint32_t>, bands> with_band_;
};

}  // namespace comera::data
