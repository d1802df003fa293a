#include "training/vectors/vector_scores.h"

#include <gtest/gtest.h>

#include <cmath>

namespace comera::test {
namespace {

// Vectors of the plane at these angles, in degrees, each as long as its place.
std::vector<float> at(const std::vector<double>& degrees) {
  std::vector<float> vectors;
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    const double angle = degrees[i] / 180 * std::acos(-1.0), length = static_cast<double>(i + 1);
    vectors.push_back(static_cast<float>(length * std::cos(angle)));
    vectors.push_back(static_cast<float>(length * std::sin(angle)));
  }
  return vectors;
}

TEST(TaughtPairs, AreOfTheNearestTextAndOfTheNextOne) {
  const std::vector<TaughtPair> pairs = pairs_by(at({0, 90, 10, 80}), {0, 1, 2, 3});
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected = {{0, 2}, {0, 1}, {1, 3}, {1, 2},
                                                                       {2, 0}, {2, 3}, {3, 1}, {3, 0}};
  ASSERT_EQ(pairs.size(), expected.size());
  for (std::size_t i = 0; i < pairs.size(); ++i)
    EXPECT_EQ(std::pair(pairs[i].first, pairs[i].second), expected[i]) << i;
  EXPECT_NEAR(pairs[0].cosine, std::cos(10 / 180. * std::acos(-1.0)), 1e-6);
  EXPECT_NEAR(pairs[1].cosine, 0, 1e-6);
}

// Equal texts say nothing: every model gives them one vector.
TEST(TaughtPairs, AreNotOfEqualTexts) {
  const std::vector<TaughtPair> pairs = pairs_by(at({0, 0, 40}), {0, 0, 1});
  ASSERT_EQ(pairs.size(), 3u);
  for (const TaughtPair& pair : pairs) EXPECT_TRUE(pair.first == 2 || pair.second == 2);
  EXPECT_TRUE(pairs_by(at({0, 0, 0}), {0, 0, 0}).empty());
  // Nor of those that are learned.
  for (const TaughtPair& pair : pairs_by(at({0, 5, 40, 50}), {0, -1, 1, 2}))
    EXPECT_TRUE(pair.first != 1 && pair.second != 1);
  EXPECT_TRUE(pairs_by(at({0}), {0}).empty());
  EXPECT_TRUE(pairs_by({}, {}).empty());
}

// A set of any size takes a time in proportion to it.
TEST(TaughtPairs, AreOfTextsThatAreNotFarApart) {
  std::vector<double> degrees;
  std::vector<std::int32_t> identities;
  for (std::int32_t i = 0; i < 2500; ++i) degrees.push_back(i % 360 + i * 1e-4), identities.push_back(i);
  const std::vector<TaughtPair> pairs = pairs_by(at(degrees), identities);
  EXPECT_GT(pairs.size(), 2500u);
  EXPECT_LE(pairs.size(), 5000u);
  for (const TaughtPair& pair : pairs) EXPECT_EQ(pair.first / 1000, pair.second / 1000);
}

}  // namespace
}  // namespace comera::test
