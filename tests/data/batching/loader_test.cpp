#include "data/batching/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "data/shards/samples.h"
#include "data/tasks/baselines.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::HasSubstr;

// Documents of very different lengths whose tokens are all distinct, in shards of about `per_shard` tokens.
class LoaderTest : public ::testing::Test {
 public:
  static constexpr std::int32_t vocabulary = 40000;

  LoaderTest() {
    ShardInfo info;
    info.tokenizer_hash = "abc";
    info.vocabulary = vocabulary;
    info.split = "train";
    ShardWriter writer(folder_.path(), info, 4000);
    std::int32_t next = 5;
    for (int d = 0; d < 150; ++d) {
      std::vector<std::int32_t> tokens(
          d % 10 == 0 ? 0 : storage::mix64(static_cast<std::uint64_t>(d)) % (d % 3 == 0 ? 300 : 40));
      for (auto& token : tokens) token = next++;
      writer.add(tokens);
    }
    writer.finish();
    last_ = next;
    shards_ = std::make_unique<ShardSet>(folder_.path(), "train");
  }

  static LoaderOptions options() {
    LoaderOptions options;
    options.capacity = {.tokens = 256, .sequences = 20, .longest = 64, .masked = 60, .unique_ids = 256};
    options.seed = 11;
    return options;
  }

  // The original ids of a batch, without special pieces.
  static std::vector<std::int32_t> originals(const Batch& batch) {
    std::vector<std::int32_t> ids(batch.token_ids.begin(), batch.token_ids.begin() + batch.tokens);
    for (std::int32_t i = 0; i < batch.masked; ++i) ids[batch.masked_positions[i]] = batch.masked_targets[i];
    std::erase_if(ids, [](auto id) { return id == 2 || id == 3; });
    return ids;
  }

  static void expect_equal(const Batch& a, const Batch& b) {
    EXPECT_THAT(a.token_ids, testing::ElementsAreArray(b.token_ids));
    EXPECT_THAT(a.position_ids, testing::ElementsAreArray(b.position_ids));
    EXPECT_THAT(a.sequence_offsets, testing::ElementsAreArray(b.sequence_offsets));
    EXPECT_THAT(a.masked_positions, testing::ElementsAreArray(b.masked_positions));
    EXPECT_THAT(a.masked_targets, testing::ElementsAreArray(b.masked_targets));
    EXPECT_THAT(a.unique_order, testing::ElementsAreArray(b.unique_order));
    EXPECT_THAT(a.unique_offsets, testing::ElementsAreArray(b.unique_offsets));
    EXPECT_THAT(a.right_order, testing::ElementsAreArray(b.right_order));
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.sequences, b.sequences);
    EXPECT_EQ(a.masked, b.masked);
  }

  test::TemporaryFolder folder_;
  std::int32_t last_ = 0;
  std::unique_ptr<ShardSet> shards_;
};

TEST_F(LoaderTest, SamplesCoverEveryDocumentEvenly) {
  Samples samples(*shards_, 64, 1 << 20);
  Sample sample;
  const std::vector<std::int32_t>& ids = sample.ids;
  std::int32_t expected = 5;
  for (std::int64_t s = 0; s < samples.count(); ++s) {
    samples.read(s, sample);
    ASSERT_EQ(static_cast<std::int64_t>(ids.size()), samples.length(s));
    ASSERT_LE(ids.size(), 64u);
    ASSERT_GE(ids.size(), 3u);
    EXPECT_EQ(ids.front(), 2);
    EXPECT_EQ(ids.back(), 3);
    for (std::size_t i = 1; i + 1 < ids.size(); ++i) ASSERT_EQ(ids[i], expected++);
  }
  EXPECT_EQ(expected, last_);
  EXPECT_THROW(Samples(*shards_, 2, 1 << 20), UsageError);
}

TEST_F(LoaderTest, EveryTokenComesOncePerEpoch) {
  for (const std::int64_t length : {16, 64}) {
    LoaderOptions given = options();
    given.capacity.longest = length;
    Loader loader(*shards_, given);
    std::map<std::int64_t, std::vector<int>> seen;
    std::int64_t full = 0, micro_batches = 0;
    for (;;) {
      const Batch& batch = loader.next();
      const LoaderPosition after = loader.position();
      if (after.epoch == 2) break;
      auto& counts = seen[after.epoch];
      counts.resize(static_cast<std::size_t>(last_));
      for (const auto id : originals(batch)) ++counts[id];
      EXPECT_LE(batch.tokens, 256);
      EXPECT_LE(batch.masked, 60);
      EXPECT_GE(batch.masked, batch.sequences) << "a target per sequence";
      for (int s = 0; s < batch.sequences; ++s) {
        EXPECT_EQ(batch.token_ids[batch.sequence_offsets[s]], 2);
        EXPECT_EQ(batch.token_ids[batch.sequence_offsets[s + 1] - 1], 3);
        EXPECT_EQ(batch.position_ids[batch.sequence_offsets[s]], 0);
      }
      full += batch.tokens;
      ++micro_batches;
    }
    ASSERT_EQ(seen.size(), 2u);
    for (const auto& [epoch, counts] : seen)
      for (std::int32_t id = 5; id < last_; ++id)
        ASSERT_EQ(counts[id], 1) << "epoch " << epoch << " id " << id;
    EXPECT_GT(static_cast<double>(full) / static_cast<double>(256 * micro_batches), 0.8);
  }
}

TEST_F(LoaderTest, PrefetchingChangesNothing) {
  LoaderOptions given = options();
  given.right_modulus = 100;
  Loader ahead(*shards_, given);
  given.prefetch = 0;
  Loader direct(*shards_, given);
  for (int i = 0; i < 100; ++i) {
    expect_equal(ahead.next(), direct.next());
    EXPECT_EQ(ahead.position(), direct.position());
  }
}

// From many masks to few, over 24 steps.
static LoaderOptions falling(LoaderOptions given) {
  given.masking.probability = 0.5;
  given.final_mask_probability = 0.05;
  given.steps = 24;
  return given;
}

static void expect_to_resume_anywhere(const ShardSet& shards, LoaderOptions given) {
  given.micro_batches_per_step = 3;
  Loader whole(shards, given);
  std::vector<Batch> batches;
  std::vector<LoaderPosition> positions;
  for (int i = 0; i < 120; ++i) {
    positions.push_back(whole.position());
    batches.push_back(whole.next());
  }
  EXPECT_GE(whole.epoch(), 1);
  for (std::size_t at = 0; at < positions.size(); at += 7) {
    Loader resumed(shards, given);
    if (at % 2 == 0) resumed.next();
    resumed.seek(positions[at]);
    EXPECT_EQ(resumed.position(), positions[at]);
    for (std::size_t i = at; i < std::min(at + 10, batches.size()); ++i) {
      LoaderTest::expect_equal(resumed.next(), batches[i]);
      EXPECT_TRUE(i + 1 == positions.size() || resumed.position() == positions[i + 1]);
    }
  }
  given.seed = 99;  // the position carries its own
  Loader other(shards, given);
  other.seek(positions[5]);
  LoaderTest::expect_equal(other.next(), batches[5]);
}

TEST_F(LoaderTest, ResumesExactlyAnywhere) {
  expect_to_resume_anywhere(*shards_, options());
  expect_to_resume_anywhere(*shards_, falling(options()));
}

// Each sequence has the masks that a loader with the step's share alone gives it.
TEST_F(LoaderTest, AShareOfMasksGoesFromStepToStep) {
  LoaderOptions given = falling(options());
  given.micro_batches_per_step = 2;
  given.steps = 12;
  given.capacity.masked = 256;
  EXPECT_EQ(given.mask_probability(0), 0.5);
  EXPECT_DOUBLE_EQ(given.mask_probability(11), 0.05);
  EXPECT_DOUBLE_EQ(given.mask_probability(100), 0.05);
  // By the first id of a sequence.
  const auto targets_of = [](const Batch& batch) {
    std::map<std::int32_t, std::vector<std::int32_t>> targets;
    std::vector<std::int32_t> ids(batch.token_ids.begin(), batch.token_ids.begin() + batch.tokens);
    for (std::int32_t i = 0; i < batch.masked; ++i) ids[batch.masked_positions[i]] = batch.masked_targets[i];
    for (int s = 0; s < batch.sequences; ++s)
      for (std::int32_t i = 0; i < batch.masked; ++i)
        if (const auto at = batch.masked_positions[i];
            at >= batch.sequence_offsets[s] && at < batch.sequence_offsets[s + 1])
          targets[ids[batch.sequence_offsets[s] + 1]].push_back(batch.masked_targets[i]);
    return targets;
  };
  Loader loader(*shards_, given);
  std::int64_t before = 1 << 20;
  for (int step = 0; step < 12; ++step) {
    LoaderOptions constant = given;
    constant.masking.probability = given.mask_probability(step);
    constant.final_mask_probability.reset();
    Loader all(*shards_, constant);
    std::map<std::int32_t, std::vector<std::int32_t>> expected;
    while (all.epoch() == 0) expected.merge(targets_of(all.next()));
    std::int64_t masked = 0;
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      const Batch& batch = loader.next();
      masked += batch.masked;
      for (const auto& [first, targets] : targets_of(batch)) EXPECT_EQ(targets, expected.at(first)) << step;
    }
    ASSERT_EQ(loader.epoch(), 0);
    if (step % 4 == 3) {
      EXPECT_LT(masked, before) << step;
      before = masked;
    }
  }
}

static void expect_shared(const ShardSet& shards, LoaderOptions given) {
  Loader alone(shards, given);
  given.world_size = 2;
  Loader zero(shards, given);
  given.process = 1;
  Loader one(shards, given);
  for (int step = 0; step < 30; ++step) {
    for (std::int64_t p = 0; p < given.micro_batches_per_step; ++p)
      LoaderTest::expect_equal((p % 2 == 0 ? zero : one).next(), alone.next());
    EXPECT_EQ(zero.position(), alone.position());
    EXPECT_EQ(one.position(), alone.position());
  }
}

// Also where there is little room for targets, and where distinct ids are counted, for which micro-batches of
// other ranks are read too.
TEST_F(LoaderTest, RanksShareTheSameGlobalBatches) {
  for (const std::int64_t micro_batches : {2, 5})
    for (const std::int64_t masked : {60, 12})
      for (const std::int64_t unique : {256, 100}) {
        LoaderOptions given = options();
        given.micro_batches_per_step = micro_batches;
        given.capacity.masked = masked;
        given.capacity.unique_ids = unique;
        expect_shared(*shards_, given);
        expect_shared(*shards_, falling(given));
      }
}

// Unknown pieces within documents are no targets: what is there is fewer than a length says.
TEST_F(LoaderTest, RanksShareBatchesWithUnknownPieces) {
  const test::TemporaryFolder folder;
  ShardInfo info = shards_->info();
  ShardWriter writer(folder.path(), info, 4000);
  for (int d = 0; d < 150; ++d) {
    std::vector<std::int32_t> tokens(10 + storage::mix64(static_cast<std::uint64_t>(d)) % 90, 7);
    for (std::size_t i = d % 3; i < tokens.size(); i += 3) tokens[i] = info.special.unknown;
    writer.add(tokens);
  }
  writer.finish();
  const ShardSet shards(folder.path(), "train");
  LoaderOptions given = options();
  given.capacity.masked = 12;
  given.micro_batches_per_step = 4;
  expect_shared(shards, given);
  given.micro_batches_per_step = 1;
  Loader loader(shards, given);
  const std::int64_t expected = loader.count_micro_batches_per_epoch();
  std::int64_t micro_batches = 0;
  while (loader.try_next() != nullptr && loader.epoch() == 0) ++micro_batches;
  EXPECT_EQ(micro_batches, expected);
}

TEST_F(LoaderTest, OnePassCoversTheSetOnceAndCanBeRepeated) {
  LoaderOptions given = options();
  given.one_pass = true;
  for (const std::int64_t prefetch : {0, 2}) {
    given.prefetch = prefetch;
    Loader loader(*shards_, given);
    std::vector<Batch> first;
    std::vector<std::int32_t> ids;
    while (const Batch* batch = loader.try_next()) {
      first.push_back(*batch);
      const auto found = originals(*batch);
      ids.insert(ids.end(), found.begin(), found.end());
    }
    EXPECT_EQ(loader.try_next(), nullptr);
    EXPECT_THAT(test::error_of([&] { loader.next(); }), HasSubstr("one pass is over"));
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(static_cast<std::int32_t>(ids.size()), last_ - 5);
    for (std::int32_t i = 0; i < last_ - 5; ++i) ASSERT_EQ(ids[i], i + 5);
    loader.seek({.seed = given.seed});
    for (const Batch& batch : first) expect_equal(loader.next(), batch);
    EXPECT_EQ(loader.try_next(), nullptr);
  }
}

TEST_F(LoaderTest, PermutedOnePassIsAFixedSampleOfTheSet) {
  LoaderOptions given = options();
  given.one_pass = given.permuted = true;
  Loader loader(*shards_, given), again(*shards_, given);
  std::vector<std::int32_t> ids;
  double first_mean = 0;
  for (int micro_batches = 0; const Batch* batch = loader.try_next(); ++micro_batches) {
    expect_equal(again.next(), *batch);
    const auto found = originals(*batch);
    ids.insert(ids.end(), found.begin(), found.end());
    if (micro_batches == 7)
      first_mean = std::accumulate(ids.begin(), ids.end(), 0.0) / static_cast<double>(ids.size());
  }
  // Ids rise through the corpus: the first micro-batches of the shards' order would lie near its beginning.
  EXPECT_NEAR(first_mean / last_, 0.5, 0.15);
  std::sort(ids.begin(), ids.end());
  ASSERT_EQ(static_cast<std::int32_t>(ids.size()), last_ - 5);
  for (std::int32_t i = 0; i < last_ - 5; ++i) ASSERT_EQ(ids[i], i + 5);
}

TEST_F(LoaderTest, CountsThePacksOfAnEpoch) {
  for (const std::int64_t masked : {60, 12})  // room for all targets, and too little of it
    for (const std::int64_t length : {16, 64})
      for (const bool one_pass : {false, true}) {
        LoaderOptions given = options();
        given.capacity.masked = masked;
        given.capacity.longest = length;
        given.one_pass = one_pass;
        Loader loader(*shards_, given);
        const std::int64_t expected = loader.count_micro_batches_per_epoch();
        std::int64_t micro_batches = 0;
        while (loader.try_next() != nullptr && loader.epoch() == 0) ++micro_batches;
        EXPECT_EQ(micro_batches, expected) << masked << " " << length << " " << one_pass;
      }
}

TEST_F(LoaderTest, KeepsToTheRoomForMaskedPositionsAndDistinctIds) {
  LoaderOptions given = options();
  given.capacity.masked = 12;
  given.capacity.unique_ids = 100;
  Loader loader(*shards_, given);
  std::int64_t sequences = 0;
  while (true) {
    const Batch& batch = loader.next();
    if (loader.position().epoch > 0) break;
    EXPECT_LE(batch.masked, 12);
    EXPECT_LE(batch.unique, 100);
    sequences += batch.sequences;
  }
  EXPECT_EQ(sequences, loader.samples_per_epoch());
}

TEST_F(LoaderTest, ASmallCacheGivesTheSame) {
  LoaderOptions given = options();
  Loader large(*shards_, given);
  given.cache_bytes = 0;
  Loader small(*shards_, given);
  for (int i = 0; i < 60; ++i) expect_equal(small.next(), large.next());
}

TEST(Loader, AFailureOfTheThreadComesOutOfNext) {
  test::TemporaryFolder folder;
  ShardInfo info;
  info.tokenizer_hash = "abc";
  info.vocabulary = 100;
  info.split = "train";
  ShardWriter writer(folder.path(), info, 1 << 20);
  for (int d = 0; d < 600; ++d) writer.add(std::vector<std::int32_t>(1000, 7));
  writer.finish();
  const ShardSet shards(folder.path(), "train");
  // Larger than what HDF5 keeps in memory, and cut off behind the reader's back.
  std::filesystem::resize_file(folder / "train-00000.h5", 100000);
  LoaderOptions options;
  options.capacity = {.tokens = 512, .sequences = 8, .longest = 128, .masked = 200, .unique_ids = 100};
  for (const std::int64_t prefetch : {0, 3}) {
    options.prefetch = prefetch;
    Loader loader(shards, options);
    const auto read_all = [&] {
      for (int i = 0; i < 10000; ++i) loader.next();
    };
    EXPECT_THAT(test::error_of(read_all), HasSubstr("train-00000.h5: could not read rows"));
    EXPECT_THAT(test::error_of([&] { loader.next(); }), HasSubstr("train-00000.h5"));
  }
}

TEST_F(LoaderTest, SaysWhatIsWrongWithItsOptions) {
  LoaderOptions given = options();
  const auto make = [&] { return test::error_of([&] { Loader loader(*shards_, given); }); };
  given.capacity.longest = 512;
  EXPECT_THAT(make(), HasSubstr("no room for a sequence of 512"));
  given = options();
  given.world_size = 2;
  EXPECT_THAT(make(), HasSubstr("process 0 of 2"));
  given = options();
  given.capacity.unique_ids = 10;
  EXPECT_THAT(make(), HasSubstr("10 distinct ids"));
  given = options();
  Loader loader(*shards_, given);
  EXPECT_THAT(test::error_of([&] { loader.seek({.cursor = 1 << 30}); }), HasSubstr("does not fit"));
}

TEST_F(LoaderTest, BaselinesFollowTheFrequencies) {
  const UnigramModel model(*shards_);
  double sum = 0;
  for (std::int32_t id = 0; id < vocabulary; ++id) sum += std::exp(-model.nats(id));
  EXPECT_NEAR(sum, 1, 1e-9);
  LoaderOptions given = options();
  given.one_pass = true;
  Loader loader(*shards_, given);
  const Baselines baselines = held_out_baselines(model, loader);
  EXPECT_NEAR(baselines.uniform, std::log(vocabulary), 1e-12);
  EXPECT_GT(baselines.targets, 0);
  // Every token occurs exactly once in this corpus.
  const double total = static_cast<double>(shards_->tokens() + vocabulary);
  EXPECT_NEAR(baselines.unigram, std::log(total / 2), 1e-9);
}

}  // namespace
}  // namespace comera::data
