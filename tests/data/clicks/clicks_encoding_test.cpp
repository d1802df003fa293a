#include "data/clicks/click_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int columns = 26;

// Of Criteo's, with this value in the first column and none in the others.
ClickRow row_of(std::string_view value, std::optional<std::int64_t> number = {}) {
  ClickRow row;
  row.dense_features.assign(13, number);
  row.categories.assign(columns, "");
  row.categories[0] = value;
  return row;
}

ClickEncoding vocabulary_of(const std::vector<std::string>& values, std::int64_t threshold) {
  ClickVocabulary vocabulary(ClickFormat::criteo);
  for (const std::string& value : values) vocabulary.add(row_of(value));
  return vocabulary.finish(threshold);
}

TEST(ClickNumber, IsTheLogarithm) {
  EXPECT_EQ(click_number({}), 0);
  EXPECT_EQ(click_number(0), 0);
  EXPECT_EQ(click_number(-5), 0);
  EXPECT_EQ(click_number(std::numeric_limits<std::int64_t>::min()), 0);
  EXPECT_FLOAT_EQ(click_number(1), std::log(2.0f));
  EXPECT_FLOAT_EQ(click_number(1382), std::log(1383.0f));
  EXPECT_FLOAT_EQ(click_number(std::numeric_limits<std::int64_t>::max()), 63 * std::log(2.0f));
}

// As a second program, written in Python, computes them too. Whoever changes these numbers makes all shards
// and trained tables useless.
TEST(HashedClickId, NeverChanges) {
  EXPECT_EQ(hashed_click_id("", 0, 1000000007), 266140943);
  EXPECT_EQ(hashed_click_id("68fd1e64", 0, 1000000007), 637007110);
  EXPECT_EQ(hashed_click_id("68fd1e64", 1, 1000000007), 418689116);
  EXPECT_EQ(hashed_click_id("68fd1e64", 25, 1000), 835);
  EXPECT_EQ(hashed_click_id("a value of more than sixteen bytes", 3, 2147483647), 86564754);
}

TEST(HashedClickId, SpreadsValuesEvenly) {
  constexpr int height = 100, values = 100000;
  constexpr double expected = 1000;  // of each id
  for (const int column : {0, 1, 25}) {
    std::vector<int> counts(height);
    for (int i = 0; i < values; ++i) ++counts[hashed_click_id(fmt::format("{:08x}", i), column, height)];
    double square = 0;
    for (const int count : counts) square += std::pow(count - expected, 2) / expected;
    // Chi-square of 99 degrees of freedom: 99 ± 14.
    EXPECT_GT(square, 50) << column;
    EXPECT_LT(square, 160) << column;
  }
  std::set<std::int32_t> ids;
  for (int column = 0; column < columns; ++column)
    ids.insert(hashed_click_id("68fd1e64", column, 2147483647));
  EXPECT_EQ(ids.size(), 26u);
  EXPECT_EQ(hashed_click_id("x", 0, 1), 0);
}

TEST(ClickEncoding, HashesEachColumn) {
  std::vector<std::int64_t> heights(columns);
  for (int i = 0; i < columns; ++i) heights[i] = 10 + i;
  const ClickEncoding encoding = ClickEncoding::hashed(ClickFormat::criteo, heights);
  std::vector<float> dense_features(13);
  std::vector<std::int32_t> ids(columns);
  encoding.encode(row_of("68fd1e64", 9), dense_features.data(), ids.data());
  EXPECT_THAT(dense_features, Each(std::log(10.0f)));
  EXPECT_EQ(ids[0], hashed_click_id("68fd1e64", 0, 10));
  for (int i = 1; i < columns; ++i) EXPECT_EQ(ids[i], hashed_click_id("", i, 10 + i));
  EXPECT_THAT(encoding.fingerprint(), HasSubstr("criteo-hash-"));
  EXPECT_NE(encoding.fingerprint(),
            ClickEncoding::hashed(ClickFormat::criteo, std::vector<std::int64_t>(columns, 10)).fingerprint());
}

TEST(ClickEncoding, RefusesHeightsThatCannotBe) {
  EXPECT_THAT(test::error_of([] {
                ClickEncoding::hashed(ClickFormat::avazu, {10, 10});
              }),
              HasSubstr("avazu has 23 columns of categories, heights of 2 tables came"));
  for (const std::int64_t height : {std::int64_t{0}, std::int64_t{1} << 31})
    EXPECT_THAT(test::error_of([&] {
                  ClickEncoding::hashed(ClickFormat::avazu, std::vector<std::int64_t>(23, height));
                }),
                HasSubstr("give each a height"));
}

TEST(ClickVocabulary, OrdersByFrequencyThenValue) {
  const ClickEncoding encoding =
      vocabulary_of({"b", "c", "a", "c", "b", "a", "d", "d", "d", "e", "", "", "", "", ""}, 2);
  EXPECT_EQ(encoding.heights()[0], 5);
  EXPECT_EQ(encoding.id("d", 0), 1);
  EXPECT_EQ(encoding.id("a", 0), 2);
  EXPECT_EQ(encoding.id("b", 0), 3);
  EXPECT_EQ(encoding.id("c", 0), 4);
  EXPECT_EQ(encoding.id("e", 0), 0);    // rare
  EXPECT_EQ(encoding.id("f", 0), 0);    // unknown
  EXPECT_EQ(encoding.id("", 0), 0);     // missing
  EXPECT_EQ(encoding.heights()[1], 1);  // only ever missing
  EXPECT_EQ(encoding.id("d", 1), 0);
  EXPECT_THAT(test::error_of([] { vocabulary_of({"a"}, 0); }), HasSubstr("at least once"));
}

TEST(ClickVocabulary, DoesNotDependOnTheOrderOfRows) {
  std::vector<std::string> values;
  for (int i = 0; i < 3000; ++i) values.push_back(fmt::format("{:08x}", i * i % 701));
  const ClickEncoding forward = vocabulary_of(values, 3);
  std::ranges::reverse(values);
  const ClickEncoding reverse = vocabulary_of(values, 3);
  EXPECT_GT(forward.heights()[0], 100);
  EXPECT_EQ(forward.fingerprint(), reverse.fingerprint());
  for (const std::string& value : values) EXPECT_EQ(forward.id(value, 0), reverse.id(value, 0));
  EXPECT_NE(forward.fingerprint(), vocabulary_of(values, 2).fingerprint());
}

TEST(ClickEncoding, IsSavedAndLoaded) {
  const test::TemporaryFolder folder;
  const std::string odd("\0\xff\n", 3);
  const ClickEncoding encoding = vocabulary_of({"b", "a", "b", odd, "a value of some length"}, 1);
  encoding.save(folder / "v.h5");
  encoding.save(folder / "again.h5");
  EXPECT_EQ(test::read_text(folder / "v.h5"), test::read_text(folder / "again.h5"));
  const ClickEncoding loaded = ClickEncoding::load(folder / "v.h5");
  EXPECT_EQ(loaded.format(), ClickFormat::criteo);
  EXPECT_TRUE(loaded.has_vocabulary());
  EXPECT_EQ(loaded.heights(), encoding.heights());
  EXPECT_EQ(loaded.fingerprint(), encoding.fingerprint());
  for (const std::string& value : {std::string("a"), std::string("b"), odd, std::string("?")})
    EXPECT_EQ(loaded.id(value, 0), encoding.id(value, 0));

  const ClickEncoding hashed = ClickEncoding::hashed(ClickFormat::avazu, std::vector<std::int64_t>(23, 77));
  hashed.save(folder / "h.h5");
  const ClickEncoding other = ClickEncoding::load(folder / "h.h5");
  EXPECT_EQ(other.fingerprint(), hashed.fingerprint());
  EXPECT_EQ(other.id("x", 2), hashed.id("x", 2));
  EXPECT_TRUE(test::left_overs(folder.path()).empty());
}

TEST(ClickEncoding, RefusesDamagedFiles) {
  const test::TemporaryFolder folder;
  vocabulary_of({"b", "a", "b"}, 1).save(folder / "v.h5");
  const std::string text = test::read_text(folder / "v.h5");
  const auto error = [&](const std::string& content) {
    const auto path = folder.write("damaged.h5", content);
    return test::error_of([&] { ClickEncoding::load(path); });
  };
  EXPECT_EQ(error(text), "");
  for (std::size_t i = 0; i < text.size(); i += 397) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_THAT(error(changed), HasSubstr("damaged.h5")) << i;
  }
  EXPECT_THAT(error(text.substr(0, text.size() - 1)), HasSubstr("make it again from the logs"));
  EXPECT_THAT(error(""), HasSubstr("is empty"));
  EXPECT_THAT(error("x"), AllOf(HasSubstr("damaged.h5"), HasSubstr("click encoding")));
}

}  // namespace
}  // namespace comera::data
