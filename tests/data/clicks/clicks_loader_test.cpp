#include "data/clicks/click_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::int64_t> heights = {1000, 3};

// Row i has the number i, a label and ids that follow from it.
float loaded_label(std::int64_t row) { return row % 5 == 0 ? 1 : 0; }
std::vector<std::int32_t> loaded_ids(std::int64_t row) {
  return {static_cast<std::int32_t>(row * 7 % 1000), static_cast<std::int32_t>(row % 3)};
}

void write_block(const std::filesystem::path& folder, std::int64_t count, std::int64_t rows_per_shard) {
  ClickShardWriter writer(folder,
                          {.encoding = "some", .split = "train", .dense_features = 1, .heights = heights},
                          rows_per_shard);
  for (std::int64_t row = 0; row < count; ++row) {
    const auto number = static_cast<float>(row);
    writer.add(loaded_label(row), &number, loaded_ids(row).data());
  }
  writer.finish();
}

ClickLoaderOptions options(std::int64_t examples) {
  return {.capacity = ClickCapacity::single(examples, 1, heights), .right_rows = {32, 0}, .seed = 11};
}

// The rows of a batch, each of which has what belongs to it.
std::vector<std::int64_t> rows_of(const Clicks& clicks) {
  const ClickBatch& batch = clicks.arrays();
  std::vector<std::int64_t> rows;
  for (std::int32_t i = 0; i < clicks.examples(); ++i) {
    const auto row = static_cast<std::int64_t>(batch.dense_features.data<float>()[i]);
    EXPECT_EQ(batch.labels.data<float>()[i], loaded_label(row));
    for (std::size_t t = 0; t < heights.size(); ++t) {
      EXPECT_EQ(batch.tables[t].ids.ids.data<std::int32_t>()[i], loaded_ids(row)[t]);
      EXPECT_EQ(batch.tables[t].offsets.data<std::int32_t>()[i + 1], i + 1);
    }
    rows.push_back(row);
  }
  return rows;
}

std::string bytes_of(const BatchStream::MicroBatch& micro_batch) {
  return {reinterpret_cast<const char*>(micro_batch.block.data()), micro_batch.block.size()};
}

// The rows of the next epoch as they come.
std::vector<std::int64_t> epoch_of(ClickLoader& loader) {
  std::vector<std::int64_t> rows;
  do {
    const BatchStream::MicroBatch micro_batch = loader.next();
    EXPECT_EQ(loader.first(), std::ssize(rows));
    const std::vector<std::int64_t> some = rows_of(loader.clicks());
    EXPECT_EQ(micro_batch.targets, std::ssize(some));
    EXPECT_EQ(micro_batch.units, std::ssize(some));
    EXPECT_TRUE(micro_batch.block.data() == loader.clicks().block().data());
    rows.insert(rows.end(), some.begin(), some.end());
  } while (loader.position().cursor < loader.samples_per_epoch());
  return rows;
}

std::vector<std::int64_t> ascending(std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// Whole blocks and windows, and others that are not.
class ClickLoaderTest : public ::testing::Test {
 public:
  static constexpr std::int64_t count = 150001;

 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder;
    write_block(folder_->path(), count, 60000);
    shards_ = new ClickShardSet(folder_->path(), "train");
  }
  static void TearDownTestSuite() {
    delete shards_;
    delete folder_;
  }
  static test::TemporaryFolder* folder_;
  static ClickShardSet* shards_;
};
test::TemporaryFolder* ClickLoaderTest::folder_ = nullptr;
ClickShardSet* ClickLoaderTest::shards_ = nullptr;

TEST_F(ClickLoaderTest, InOrderOfTimeRowsComeAsTheyLie) {
  ClickLoader loader(*shards_, options(1000));
  EXPECT_EQ(loader.samples_per_epoch(), count);
  EXPECT_EQ(loader.micro_batches_per_epoch(), 151);
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(epoch_of(loader), ascending(count));
}

TEST_F(ClickLoaderTest, ShuffledEveryRowComesOncePerEpoch) {
  ClickLoaderOptions given = options(1000);
  given.order = ClickOrder::shuffled;
  ClickLoader loader(*shards_, given);
  given.seed = 12;
  ClickLoader other(*shards_, given);
  const std::vector<std::int64_t> first = epoch_of(loader), second = epoch_of(loader);
  EXPECT_NE(first, second);
  const std::vector<std::int64_t> of_another_seed = epoch_of(other);
  EXPECT_NE(first, of_another_seed);
  EXPECT_NE(second, of_another_seed);
  for (std::vector<std::int64_t> rows : {first, second, of_another_seed}) {
    std::ranges::sort(rows);
    EXPECT_EQ(rows, ascending(count));
  }
  // Rows that lie together are not together any more, and the first ones come from anywhere.
  std::int64_t together = 0;
  for (std::size_t i = 1; i < first.size(); ++i) together += std::abs(first[i] - first[i - 1]) < 10 ? 1 : 0;
  EXPECT_LT(together, count / 500);
  const double mean = std::accumulate(first.begin(), first.begin() + 20000, 0.0) / 20000;
  EXPECT_NEAR(mean / count, 0.5, 0.15);
}

// 0 to 2 whole blocks, with a rest or without.
TEST(ClickLoader, SetsOfAnySizeAreCoveredInBothOrders) {
  for (const std::int64_t rows : {1, 2, 3, 4095, 4096, 4097, 8192, 9000}) {
    const test::TemporaryFolder folder;
    write_block(folder.path(), rows, 5000);
    const ClickShardSet shards(folder.path(), "train");
    for (const ClickOrder order : {ClickOrder::time, ClickOrder::shuffled}) {
      ClickLoaderOptions given = options(701);
      given.order = order;
      ClickLoader loader(shards, given);
      for (int epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::int64_t> found = epoch_of(loader);
        if (order == ClickOrder::shuffled) std::ranges::sort(found);
        EXPECT_EQ(found, ascending(rows)) << rows;
      }
    }
  }
}

TEST_F(ClickLoaderTest, AnEpochsLastPackIsShorter) {
  ClickLoaderOptions given = options(60000);
  given.micro_batches_per_step = 2;
  ClickLoader loader(*shards_, given);
  std::vector<std::int64_t> sizes, epochs;
  for (int i = 0; i < 7; ++i) {
    sizes.push_back(loader.next().targets);
    epochs.push_back(loader.position().epoch);
  }
  EXPECT_THAT(sizes, ElementsAre(60000, 60000, 30001, 60000, 60000, 30001, 60000));
  EXPECT_THAT(epochs, ElementsAre(0, 0, 0, 1, 1, 1, 2));
  EXPECT_EQ(loader.position().micro_batch, 1);
}

TEST_F(ClickLoaderTest, PrefetchingChangesNothing) {
  ClickLoaderOptions given = options(5000);
  given.order = ClickOrder::shuffled;
  given.prefetch = 3;
  ClickLoader ahead(*shards_, given);
  given.prefetch = 0;
  ClickLoader direct(*shards_, given);
  for (int i = 0; i < 70; ++i) {
    EXPECT_EQ(bytes_of(ahead.next()), bytes_of(direct.next()));
    EXPECT_EQ(ahead.position(), direct.position());
  }
}

TEST_F(ClickLoaderTest, ProcessesShareTheSameGlobalBatches) {
  for (const std::int64_t micro_batches : {3, 4})
    for (const ClickOrder order : {ClickOrder::time, ClickOrder::shuffled}) {
      ClickLoaderOptions given = options(7000);
      given.order = order;
      given.micro_batches_per_step = micro_batches;
      ClickLoader alone(*shards_, given);
      given.world_size = 3;
      std::vector<std::unique_ptr<ClickLoader>> processes;
      for (given.process = 0; given.process < 3; ++given.process)
        processes.push_back(std::make_unique<ClickLoader>(*shards_, given));
      for (int step = 0; step < 12; ++step) {  // through more than one epoch
        for (std::int64_t p = 0; p < micro_batches; ++p) {
          ClickLoader& process = *processes[static_cast<std::size_t>(p % 3)];
          EXPECT_EQ(bytes_of(process.next()), bytes_of(alone.next()));
          EXPECT_EQ(process.first(), alone.first());
        }
        for (const auto& process : processes) EXPECT_EQ(process->position(), alone.position());
      }
    }
}

TEST_F(ClickLoaderTest, ResumesExactlyAnywhere) {
  ClickLoaderOptions given = options(7000);
  given.order = ClickOrder::shuffled;
  given.micro_batches_per_step = 3;
  ClickLoader whole(*shards_, given);
  std::vector<std::string> micro_batches;
  std::vector<LoaderPosition> positions;
  for (int i = 0; i < 50; ++i) {
    positions.push_back(whole.position());
    micro_batches.push_back(bytes_of(whole.next()));
  }
  EXPECT_EQ(whole.position().epoch, 2);
  given.seed = 99;  // a position carries its own
  for (const std::int64_t prefetch : {0, 2}) {
    given.prefetch = prefetch;
    ClickLoader resumed(*shards_, given);
    for (std::size_t at = 0; at < positions.size(); at += 3) {
      if (at % 2 == 0) resumed.next();
      resumed.seek(positions[at]);
      EXPECT_EQ(resumed.position(), positions[at]);
      for (std::size_t i = at; i < std::min(at + 4, micro_batches.size()); ++i) {
        EXPECT_EQ(bytes_of(resumed.next()), micro_batches[i]);
        EXPECT_TRUE(i + 1 == positions.size() || resumed.position() == positions[i + 1]);
      }
    }
  }
}

// What is not aligned with a micro-batch comes from a batch of another size.
TEST_F(ClickLoaderTest, GoesOnWithPacksOfAnotherSize) {
  ClickLoader loader(*shards_, options(1000));
  loader.seek({.epoch = 3, .cursor = 149123, .seed = 11});
  EXPECT_EQ(loader.next().targets, 878);
  EXPECT_THAT(rows_of(loader.clicks()).front(), 149123);
  EXPECT_EQ(loader.next().targets, 1000);
  EXPECT_EQ(loader.position().epoch, 4);
}

TEST_F(ClickLoaderTest, OnePassCoversTheSetOnceAndCanBeRepeated) {
  for (const std::int64_t prefetch : {0, 2}) {
    ClickLoaderOptions given = options(4000);
    given.one_pass = true;
    given.prefetch = prefetch;
    ClickLoader loader(*shards_, given);
    EXPECT_THAT(test::error_of([&] { loader.clicks(); }), HasSubstr("has handed out no micro-batch"));
    for (int pass = 0; pass < 2; ++pass) {
      std::vector<std::int64_t> rows;
      while (loader.try_next()) {
        EXPECT_EQ(loader.first(), std::ssize(rows));
        const std::vector<std::int64_t> some = rows_of(loader.clicks());
        rows.insert(rows.end(), some.begin(), some.end());
      }
      EXPECT_EQ(rows, ascending(count));
      EXPECT_FALSE(loader.try_next());
      EXPECT_THAT(test::error_of([&] { loader.next(); }), HasSubstr("one pass is over"));
      EXPECT_THAT(test::error_of([&] { loader.first(); }), HasSubstr("has handed out no micro-batch"));
      loader.seek({.seed = given.seed});
    }
  }
}

// Also where the micro-batches are no multiple of those of a step.
TEST_F(ClickLoaderTest, ProcessesShareOnePass) {
  ClickLoaderOptions given = options(4000);
  given.one_pass = true;
  given.micro_batches_per_step = 3;
  given.world_size = 3;
  std::vector<std::int64_t> rows(count, -1);
  for (given.process = 0; given.process < 3; ++given.process) {
    ClickLoader loader(*shards_, given);
    while (loader.try_next()) std::ranges::copy(rows_of(loader.clicks()), rows.begin() + loader.first());
  }
  EXPECT_EQ(rows, ascending(count));
}

TEST_F(ClickLoaderTest, PositionsThatDoNotBelongAreRefused) {
  ClickLoaderOptions given = options(1000);
  given.micro_batches_per_step = 2;
  ClickLoader loader(*shards_, given);
  loader.next();
  for (const LoaderPosition& position :
       {LoaderPosition{.epoch = -1}, LoaderPosition{.cursor = count + 1}, LoaderPosition{.cursor = -1},
        LoaderPosition{.taken = 1}, LoaderPosition{.micro_batch = 2}, LoaderPosition{.micro_batch = -1}})
    EXPECT_THAT(test::error_of([&] { loader.seek(position); }),
                HasSubstr("does not fit 150001 rows and 2 micro-batches per step"));
  // It goes on as if nobody had asked.
  EXPECT_EQ(loader.position().cursor, 1000);
  loader.next();
  EXPECT_EQ(loader.first(), 1000);
  EXPECT_EQ(loader.position().cursor, 2000);
}

TEST_F(ClickLoaderTest, SaysWhatIsWrongWithItsOptions) {
  const auto error = [](const auto& change) {
    ClickLoaderOptions given = options(1000);
    change(given);
    return test::error_of([&] { ClickLoader loader(*shards_, given); });
  };
  EXPECT_EQ(error([](auto&) {}), "");
  EXPECT_THAT(error([](auto& given) { given.capacity.dense_features = 13; }),
              HasSubstr("the train shards have 1 numbers and 2 tables, a batch has 13 and 2"));
  EXPECT_THAT(error([](auto& given) { given.capacity.tables.pop_back(); }), HasSubstr("a batch has 1 and 1"));
  EXPECT_THAT(error([](auto& given) { given.capacity.tables[1].ids = 999; }),
              HasSubstr("needs room for 1000 ids of table 1, 3 of them distinct; it has 999 and 3"));
  EXPECT_THAT(error([](auto& given) { given.capacity.tables[0].unique_ids = 999; }),
              HasSubstr("1000 ids of table 0, 1000 of them distinct; it has 1000 and 999"));
  EXPECT_THAT(error([](auto& given) { given.capacity.examples = 0; }), HasSubstr("at least one example"));
  EXPECT_THAT(error([](auto& given) { given.right_rows = {1}; }), HasSubstr("1 tables have right rows"));
  EXPECT_THAT(error([](auto& given) { given.world_size = 2; }), HasSubstr("process 0 of 2 cannot share 1"));
}

TEST(ClickLoader, AFailureOfTheThreadComesOutOfNext) {
  const test::TemporaryFolder folder;
  write_block(folder.path(), 300000, 400000);
  const ClickShardSet shards(folder.path(), "train");
  // Larger than what HDF5 keeps in memory, and cut off behind the reader's back.
  std::filesystem::resize_file(folder / "train-00000.h5", 1 << 20);
  for (const std::int64_t prefetch : {0, 3}) {
    ClickLoaderOptions given = options(1000);
    given.prefetch = prefetch;
    ClickLoader loader(shards, given);
    const auto read_all = [&] {
      for (int i = 0; i < 300; ++i) loader.next();
    };
    EXPECT_THAT(test::error_of(read_all), HasSubstr("train-00000.h5: could not read rows"));
    EXPECT_THAT(test::error_of([&] { loader.next(); }), HasSubstr("train-00000.h5"));
    EXPECT_THAT(test::error_of([&] { loader.clicks(); }), HasSubstr("has handed out no micro-batch"));
  }
}

}  // namespace
}  // namespace comera::data
