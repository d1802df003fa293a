#include "data/clicks/click_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

ClickShardInfo small_info() {
  return {.encoding = "some", .split = "train", .dense_features = 2, .heights = {1000, 7, 50}};
}

// Row i of a list that is easy to tell.
float label_of(std::int64_t i) { return i % 3 == 0 ? 1 : 0; }
std::vector<float> numeric_columns_of(std::int64_t i) {
  return {static_cast<float>(i), -0.5f * static_cast<float>(i)};
}
std::vector<std::int32_t> ids_of(std::int64_t i) {
  const auto n = static_cast<std::int32_t>(i);
  return {n % 1000, n % 7, n % 50};
}

void add_rows(ClickShardWriter& writer, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    writer.add(label_of(i), numeric_columns_of(i).data(), ids_of(i).data());
}

void write_rows(const std::filesystem::path& folder, std::int64_t count, std::int64_t rows_per_shard,
                const ClickShardInfo& info = small_info()) {
  ClickShardWriter writer(folder, info, rows_per_shard);
  add_rows(writer, count);
  writer.finish();
}

void expect_rows(const ClickShardSet& set, std::int64_t first, std::int64_t count) {
  ClickExamples examples;
  set.read(first, count, examples);
  ASSERT_EQ(examples.count(), count);
  ClickExamples wanted;
  for (std::int64_t i = first; i < first + count; ++i) {
    wanted.labels.push_back(label_of(i));
    for (const float number : numeric_columns_of(i)) wanted.dense_features.push_back(number);
    for (const std::int32_t id : ids_of(i)) wanted.ids.push_back(id);
  }
  EXPECT_EQ(examples.labels, wanted.labels);
  EXPECT_EQ(examples.dense_features, wanted.dense_features);
  EXPECT_EQ(examples.ids, wanted.ids);
}

std::vector<std::string> files(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::string open_error(const std::filesystem::path& folder) {
  return test::error_of([&] { ClickShardSet(folder, "train"); });
}

TEST(ClickShards, RoundTripWithBlocksAcrossFiles) {
  const test::TemporaryFolder folder;
  write_rows(folder.path(), 25, 10);
  EXPECT_THAT(files(folder.path()), ElementsAre("train-00000.h5", "train-00001.h5", "train-00002.h5"));
  const ClickShardSet set(folder.path(), "train");
  EXPECT_EQ(set.rows(), 25);
  EXPECT_EQ(set.clicks(), 9);
  EXPECT_EQ(set.info().encoding, "some");
  EXPECT_THAT(set.info().heights, ElementsAre(1000, 7, 50));
  for (std::int64_t first = 0; first <= 25; ++first)
    for (std::int64_t count = 0; first + count <= 25; ++count) expect_rows(set, first, count);
  ClickExamples examples;
  EXPECT_THAT(test::error_of([&] { set.read(20, 6, examples); }),
              HasSubstr("train has 25 rows, 6 rows from row 20 on were asked for"));
  EXPECT_NE(test::error_of([&] { set.read(-1, 2, examples); }), "");
  EXPECT_NE(test::error_of([&] { set.read(2, std::numeric_limits<std::int64_t>::max(), examples); }), "");
}

TEST(ClickShards, HoldMoreThanABuffer) {
  const test::TemporaryFolder folder;
  write_rows(folder.path(), 20000, 9000);
  const ClickShardSet set(folder.path(), "train");
  EXPECT_EQ(set.rows(), 20000);
  expect_rows(set, 0, 20000);
  expect_rows(set, 8990, 20);
  expect_rows(set, 4095, 2);
}

TEST(ClickShards, MayHaveNoNumbers) {
  const test::TemporaryFolder folder;
  ClickShardInfo info = small_info();
  info.dense_features = 0;
  ClickShardWriter writer(folder.path(), info, 2);
  for (int i = 0; i < 3; ++i) writer.add(1, nullptr, ids_of(i).data());
  writer.finish();
  const ClickShardSet set(folder.path(), "train");
  ClickExamples examples;
  set.read(1, 2, examples);
  EXPECT_THAT(examples.dense_features, IsEmpty());
  EXPECT_THAT(examples.ids, ElementsAre(1, 1, 1, 2, 2, 2));
}

TEST(ClickShards, FingerprintTellsContentsApart) {
  const test::TemporaryFolder a, b, c, d;
  write_rows(a.path(), 25, 10);
  write_rows(b.path(), 25, 10);
  write_rows(c.path(), 24, 10);
  ClickShardInfo info = small_info();
  info.encoding = "other";
  write_rows(d.path(), 25, 10, info);
  const auto print = [](const test::TemporaryFolder& folder) {
    return ClickShardSet(folder.path(), "train").fingerprint();
  };
  EXPECT_EQ(print(a), print(b));
  EXPECT_NE(print(a), print(c));
  EXPECT_NE(print(a), print(d));
}

TEST(ClickShards, AnyDamageIsRefused) {
  const test::TemporaryFolder folder;
  write_rows(folder.path(), 25, 25);
  const std::string name = "train-00000.h5", text = test::read_text(folder / name);
  EXPECT_EQ(open_error(folder.path()), "");
  for (std::size_t i = 0; i < text.size(); i += 997) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    folder.write(name, changed);
    EXPECT_THAT(open_error(folder.path()), HasSubstr(name)) << i;
  }
  folder.write(name, text.substr(0, text.size() / 2));
  EXPECT_THAT(open_error(folder.path()), HasSubstr("make it again from the logs"));
}

TEST(ClickShards, IncompleteSetsAreRefused) {
  const test::TemporaryFolder folder, other;
  EXPECT_THAT(open_error(folder.path()),
              HasSubstr("holds no shards of clicks; make them from logs with 'comera clicks data'"));
  EXPECT_THAT(open_error(folder / "none"), HasSubstr("no such folder of click shards; make them"));
  write_rows(folder.path(), 25, 10);
  write_rows(other.path(), 35, 10);
  std::filesystem::rename(folder / "train-00001.h5", folder / "kept");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("train-00001.h5 is missing"));
  std::filesystem::copy_file(other / "train-00001.h5", folder / "train-00001.h5");
  EXPECT_THAT(open_error(folder.path()),
              HasSubstr("train-00001.h5 was made as train-00001.h5, one of 4 shards, and 3 are there"));
  std::filesystem::remove(folder / "train-00001.h5");
  std::filesystem::copy_file(folder / "train-00000.h5", folder / "train-00001.h5");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("was made as train-00000.h5"));
  std::filesystem::remove(folder / "train-00001.h5");
  std::filesystem::remove(folder / "train-00002.h5");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("one of 3 shards, and 1 are there"));
}

TEST(ClickShards, ShardsOfOtherEncodingsAreRefused) {
  const test::TemporaryFolder folder, other;
  write_rows(folder.path(), 25, 10);
  ClickShardInfo info = small_info();
  info.heights[0] = 1001;
  write_rows(other.path(), 25, 10, info);
  std::filesystem::copy_file(other / "train-00001.h5", folder / "train-00001.h5",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(open_error(folder.path()), HasSubstr("with another encoding"));
}

TEST(ClickShards, ValuesThatCannotBeAreRefused) {
  const auto error = [](float label, float number, std::int32_t id) {
    const test::TemporaryFolder folder;
    ClickShardWriter writer(folder.path(), small_info(), 5);
    add_rows(writer, 7);
    writer.add(label, std::vector<float>{0, number}.data(), std::vector<std::int32_t>{0, id, 0}.data());
    writer.finish();
    return open_error(folder.path());
  };
  EXPECT_EQ(error(0, 0, 6), "");
  EXPECT_THAT(error(0.5, 0, 0), HasSubstr("train-00001.h5: row 2 has label 0.5"));
  EXPECT_THAT(error(0, std::numeric_limits<float>::infinity(), 0),
              HasSubstr("train-00001.h5: row 2 has a number that is not finite"));
  EXPECT_THAT(error(0, 0, 7), HasSubstr("train-00001.h5: row 2 has id 7 in table 1, which has 7 rows"));
  EXPECT_THAT(error(0, 0, -1), HasSubstr("row 2 has id -1"));
}

TEST(ClickShards, AnUnfinishedWriterLeavesNothing) {
  const test::TemporaryFolder folder;
  write_rows(folder.path(), 3, 10);
  {
    ClickShardWriter writer(folder.path(), small_info(), 10);
    add_rows(writer, 25);
    EXPECT_EQ(writer.shards(), 2);
    EXPECT_NE(test::error_of([&] { writer.publish(); }), "");
  }
  EXPECT_THAT(files(folder.path()), ElementsAre("train-00000.h5"));
  EXPECT_EQ(ClickShardSet(folder.path(), "train").rows(), 3);
}

// Rows 0 … count − 1 of Avazu's, of which number i has C1 = i, and the value i % 2 in C21.
std::string avazu_rows(int begin, int end) {
  std::string text;
  for (int i = begin; i < end; ++i)
    text += fmt::format("{},{},14102100,{},0,a,b,c,d,e,f,g,h,i,1,0,15704,320,50,1722,0,35,-1,{}\n", i, i % 2,
                        i, i % 2);
  return text;
}

TEST(BuildClickShards, HoldsOutTheLastRows) {
  const test::TemporaryFolder folder;
  const auto a = folder.write("a", avazu_rows(0, 13) + "broken\n"), b = folder.write("b", avazu_rows(13, 20));
  const ClickSplit split = split_by_time({a, b}, ClickFormat::avazu, 0.25);
  EXPECT_EQ(split.train, 15);
  EXPECT_EQ(split.validation, 5);
  const ClickEncoding encoding = learn_vocabulary({a, b}, ClickFormat::avazu, split, 1);
  EXPECT_EQ(encoding.heights()[2], 16);  // C1 of the rows for training, and the unknown
  const ClickBuildCounts counts = build_click_shards({a, b}, encoding, split, folder / "out", 4);
  EXPECT_THAT(counts.skipped, ElementsAre(HasSubstr("wrong number of fields: 1 (first in line 14)")));
  EXPECT_THAT(counts.left_out, ElementsAre(Pair("wrong number of fields", 1)));
  EXPECT_EQ(counts.train.rows, 15);
  EXPECT_EQ(counts.train.clicks, 7);
  EXPECT_EQ(counts.train.shards, 4);
  EXPECT_EQ(counts.validation.rows, 5);
  EXPECT_EQ(counts.validation.clicks, 3);
  EXPECT_EQ(counts.validation.shards, 2);
  EXPECT_EQ(ClickEncoding::load(folder / "out" / click_encoding_file).fingerprint(), encoding.fingerprint());

  const ClickShardSet train(folder / "out", "train"), validation(folder / "out", "validation");
  EXPECT_EQ(train.rows(), 15);
  EXPECT_EQ(validation.rows(), 5);
  EXPECT_EQ(train.info().encoding, encoding.fingerprint());
  EXPECT_EQ(train.info().heights, encoding.heights());
  ClickExamples examples;
  train.read(0, 15, examples);
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(examples.labels[i], i % 2);
    EXPECT_EQ(examples.ids[23 * i + 2], encoding.id(std::to_string(i), 2));
    EXPECT_GT(examples.ids[23 * i + 2], 0);
  }
  validation.read(0, 5, examples);
  EXPECT_THAT(examples.labels, ElementsAre(1, 0, 1, 0, 1));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(examples.ids[23 * i + 2], 0);  // never seen in training
    EXPECT_EQ(examples.ids[23 * i + 22], encoding.id(std::to_string((15 + i) % 2), 22));
  }
}

TEST(BuildClickShards, ReplacesAnEarlierBuildOrLeavesIt) {
  const test::TemporaryFolder folder;
  const auto log = folder.write("a", avazu_rows(0, 20)), out = folder / "out";
  const ClickEncoding encoding = ClickEncoding::hashed(ClickFormat::avazu, std::vector<std::int64_t>(23, 9));
  build_click_shards({log}, encoding, {15, 5}, out, 4);
  EXPECT_EQ(files(out).size(), 7u);
  const std::string before = ClickShardSet(out, "train").fingerprint();
  EXPECT_THAT(test::error_of([&] {
                build_click_shards({log}, encoding, {15, 6}, out, 4);
              }),
              HasSubstr("the logs have 20 rows, 21 were counted before"));
  EXPECT_THAT(test::error_of([&] {
                build_click_shards({folder / "none"}, encoding, {15, 5}, out, 4);
              }),
              HasSubstr("No such file"));
  EXPECT_EQ(files(out).size(), 7u);
  EXPECT_EQ(ClickShardSet(out, "train").fingerprint(), before);
  EXPECT_EQ(ClickEncoding::load(out / click_encoding_file).fingerprint(), encoding.fingerprint());
  const ClickEncoding other = ClickEncoding::hashed(ClickFormat::avazu, std::vector<std::int64_t>(23, 10));
  build_click_shards({log}, other, {20, 0}, out);
  EXPECT_THAT(files(out), ElementsAre("encoding.h5", "train-00000.h5"));
  EXPECT_EQ(ClickEncoding::load(out / click_encoding_file).fingerprint(), other.fingerprint());
  EXPECT_EQ(ClickShardSet(out, "train").info().encoding, other.fingerprint());
  build_click_shards({log}, other, {0, 20}, out);
  EXPECT_THAT(files(out), ElementsAre("encoding.h5", "validation-00000.h5"));
  std::filesystem::create_directory(folder / "taken");
  std::filesystem::create_directory(folder / "taken/encoding.h5");
  EXPECT_THAT(test::error_of([&] {
                build_click_shards({log}, other, {15, 5}, folder / "taken");
              }),
              HasSubstr("encoding.h5: is a folder"));
  EXPECT_NE(test::error_of([&] {
              build_click_shards({folder / "none"}, encoding, {15, 5}, folder / "new");
            }),
            "");
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

TEST(BuildClickShards, SplitsHaveRowsForTrainingUnlessAllAreHeldOut) {
  const test::TemporaryFolder folder;
  const auto log = folder.write("a", avazu_rows(0, 20));
  const auto split = [&](double share) { return split_by_time({log}, ClickFormat::avazu, share); };
  EXPECT_EQ(split(0).train, 20);
  EXPECT_EQ(split(0.95).train, 1);
  EXPECT_EQ(split(1).validation, 20);
  EXPECT_THAT(test::error_of([&] { split(0.99); }), HasSubstr("none of 20 rows is left for training"));
  for (const double share : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THAT(test::error_of([&] { split(share); }), HasSubstr("held-out share"));
}

TEST(BuildClickShards, SaysHowFarItIs) {
  const test::TemporaryFolder folder;
  const auto a = folder.write("a", avazu_rows(0, 5000)), b = folder.write("b", avazu_rows(5000, 9000));
  std::vector<std::int64_t> told;
  const ClickProgress progress = [&](std::int64_t rows) { told.push_back(rows); };
  const ClickSplit split = split_by_time({a, b}, ClickFormat::avazu, 0.5, progress);
  EXPECT_THAT(told, ElementsAre(4096, 8192));
  const ClickEncoding encoding = learn_vocabulary({a, b}, ClickFormat::avazu, split, 1, progress);
  EXPECT_THAT(told, ElementsAre(4096, 8192, 4096));
  build_click_shards({a, b}, encoding, split, folder / "out", 1 << 20, progress);
  EXPECT_THAT(told, ElementsAre(4096, 8192, 4096, 4096, 8192));
}

}  // namespace
}  // namespace comera::data
