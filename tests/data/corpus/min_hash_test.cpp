#include "data/corpus/min_hash.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>
#include <string>

#include "storage/hash.h"

namespace comera::data {
namespace {

std::string text_of(const std::vector<int>& words) {
  std::string text;
  for (const int word : words) text += "w" + std::to_string(word) + (word % 7 == 0 ? "\n" : " ");
  return text;
}

std::vector<int> random_words(std::size_t count, std::uint64_t seed) {
  std::vector<int> words;
  for (std::size_t i = 0; i < count; ++i)
    words.push_back(static_cast<int>(storage::mix64(seed * 100003 + i) % 100000));
  return words;
}

// Of the sets of shingles.
double jaccard(const std::vector<int>& a, const std::vector<int>& b) {
  const auto runs = [](const std::vector<int>& words) {
    std::set<std::vector<int>> set;
    for (std::size_t i = 0; i + 5 <= words.size(); ++i) set.emplace(words.begin() + i, words.begin() + i + 5);
    return set;
  };
  const auto first = runs(a), second = runs(b);
  std::size_t both = 0;
  for (const auto& run : first) both += second.count(run);
  return static_cast<double>(both) / static_cast<double>(first.size() + second.size() - both);
}

TEST(MinHash, EstimatesTheJaccardSimilarity) {
  MinHash hash;
  double square = 0;
  int pairs = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::vector<int> a = random_words(400, seed);
    std::vector<int> b = a;
    for (std::size_t i = 0; i < 1 + seed; ++i)
      b[storage::mix64(seed * 1000 + i) % b.size()] = -1 - static_cast<int>(i);
    const double error = MinHash::similarity(*hash(text_of(a)), *hash(text_of(b))) - jaccard(a, b);
    EXPECT_LT(std::abs(error), 4 * 0.044) << seed;
    square += error * error;
    ++pairs;
  }
  EXPECT_LT(std::sqrt(square / pairs), 0.06);
}

TEST(MinHash, DoesNotSeeWhiteSpaceButSeesOrder) {
  MinHash hash;
  const auto one = hash("a b c d e f(x, 1)");
  EXPECT_EQ(one, hash("a\nb  c\td e f ( x,1 )"));
  EXPECT_NE(one, hash("b a c d e f(x, 1)"));
  EXPECT_EQ(hash("one two three four"), std::nullopt);
  EXPECT_EQ(hash("  \n "), std::nullopt);
}

TEST(MinHash, SimilarTextsAreFoundAndOthersAreNot) {
  MinHash hash;
  MinHashIndex kept(0.8);
  std::vector<std::vector<int>> texts;
  for (std::uint64_t seed = 0; seed < 200; ++seed) texts.push_back(random_words(300, seed));
  for (const auto& text : texts) EXPECT_TRUE(kept.insert(*hash(text_of(text))));
  int found = 0;
  for (auto text : texts) {
    text[150] = -1;  // similarity 0.966
    found += !kept.insert(*hash(text_of(text)));
  }
  EXPECT_EQ(found, 200);
  for (auto text : texts) {
    for (std::size_t i = 0; i < 300; i += 10) text[i] = -static_cast<int>(i) - 1;  // similarity 0.34
    EXPECT_TRUE(kept.insert(*hash(text_of(text))));
  }
}

}  // namespace
}  // namespace comera::data
