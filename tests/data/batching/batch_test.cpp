#include "data/batching/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "data/masking/masking.h"
#include "data/shards/permutation.h"
#include "kernels/core/check.h"
#include "storage/hash.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Batch, FinishFillsTheOrders) {
  Batch batch({.tokens = 8, .sequences = 3, .longest = 4, .masked = 2, .unique_ids = 6});
  const std::vector<std::int32_t> first = {7, 12, 7}, second = {3, 12, 10};
  batch.add_sequence(first.data(), nullptr, 3, {1}, {99}, 5);
  batch.add_sequence(second.data(), nullptr, 3, {2}, {98});
  finish_batch(batch, 5);
  EXPECT_THAT(batch.token_ids, ElementsAre(7, 12, 7, 3, 12, 10, 0, 0));
  EXPECT_THAT(batch.position_ids, ElementsAre(0, 1, 2, 0, 1, 2, 0, 0));
  EXPECT_THAT(batch.sequence_offsets, ElementsAre(0, 3, 6, 6));
  EXPECT_THAT(batch.masked_positions, ElementsAre(1, 5));
  EXPECT_THAT(batch.masked_targets, ElementsAre(99, 98));
  EXPECT_THAT(batch.labels, ElementsAre(5, 0, 0));
  EXPECT_EQ(batch.unique, 4);
  EXPECT_THAT(batch.unique_ids, ElementsAre(3, 7, 10, 12, 0, 0));
  EXPECT_THAT(batch.unique_index, ElementsAre(1, 3, 1, 0, 3, 2, 0, 0));
  EXPECT_THAT(batch.unique_order, ElementsAre(3, 0, 2, 5, 1, 4, 0, 0));
  EXPECT_THAT(batch.unique_offsets, ElementsAre(0, 1, 3, 4, 6, 6, 6));
  EXPECT_THAT(batch.right_order, ElementsAre(2, 1, 3, 0, 0, 0));  // 10, 7, 12, 3 by (id % 5, id)
  finish_batch(batch, 0);
  EXPECT_THAT(batch.right_order, ElementsAre(0, 1, 2, 3, 0, 0));
}

TEST(Batch, FinishAgreesWithAPlainSort) {
  for (const std::int64_t limit : {1, 5, 2048, 2049, 50265, 5000000})
    for (const std::int64_t modulus : {1, 7, 250, 4000000}) {
      const std::int64_t count = 1777;
      Batch batch({.tokens = 2000, .sequences = 1, .longest = 2000, .masked = 0, .unique_ids = 2000});
      std::vector<std::int32_t> ids(count);
      for (std::int64_t i = 0; i < count; ++i)
        ids[i] = static_cast<std::int32_t>(storage::mix64(static_cast<std::uint64_t>(i)) %
                                           static_cast<std::uint64_t>(limit));
      batch.add_sequence(ids.data(), nullptr, count);
      finish_batch(batch, modulus);
      std::map<std::int32_t, std::vector<std::int32_t>> rows;
      for (std::int64_t i = 0; i < count; ++i) rows[ids[i]].push_back(static_cast<std::int32_t>(i));
      ASSERT_EQ(batch.unique, rows.size());
      std::int32_t unique = 0;
      for (const auto& [id, expected] : rows) {
        EXPECT_EQ(batch.unique_ids[unique], id);
        const std::vector<std::int32_t> found(batch.unique_order.begin() + batch.unique_offsets[unique],
                                              batch.unique_order.begin() + batch.unique_offsets[unique + 1]);
        EXPECT_EQ(found, expected);
        for (const auto row : expected) EXPECT_EQ(batch.unique_index[row], unique);
        ++unique;
      }
      std::vector<std::int32_t> right(rows.size());
      std::iota(right.begin(), right.end(), 0);
      std::stable_sort(right.begin(), right.end(), [&](auto a, auto b) {
        return batch.unique_ids[a] % modulus < batch.unique_ids[b] % modulus;
      });
      EXPECT_TRUE(std::equal(right.begin(), right.end(), batch.right_order.begin()));
    }
}

TEST(Batch, SaysWhatDoesNotFit) {
  Batch batch({.tokens = 4, .sequences = 1, .longest = 4, .masked = 1, .unique_ids = 2});
  const std::vector<std::int32_t> ids = {1, 2, 3, 4, 5};
  EXPECT_THAT(test::error_of([&] { batch.add_sequence(ids.data(), nullptr, 5); }), HasSubstr("does not fit"));
  EXPECT_THAT(test::error_of([&] {
                batch.add_sequence(ids.data(), nullptr, 3, {0, 1}, {1, 2});
              }),
              HasSubstr("does not fit"));
  batch.add_sequence(ids.data(), nullptr, 3);
  EXPECT_THAT(test::error_of([&] { finish_batch(batch, 0); }), HasSubstr("more distinct token ids"));
  Batch empty({.tokens = 4, .sequences = 1, .longest = 4, .masked = 1, .unique_ids = 2});
  finish_batch(empty, 3);
  EXPECT_EQ(empty.unique, 0);
}

TEST(Permutation, VisitsEveryPlaceOnceAndDiffersByEpoch) {
  for (const std::int64_t count : {1, 2, 3, 4, 5, 17, 64, 65, 1000, 4097}) {
    const Permutation order(count, 3, 0);
    std::vector<bool> seen(count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t value = order[i];
      ASSERT_TRUE(value >= 0 && value < count && !seen[value]);
      seen[value] = true;
    }
  }
  const Permutation first(1000, 3, 0), second(1000, 3, 1), other(1000, 4, 0);
  int same_epoch = 0, same_seed = 0, fixed = 0, neighbours = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    same_epoch += first[i] == second[i];
    same_seed += first[i] == other[i];
    fixed += first[i] == i;
    neighbours += i > 0 && first[i] == first[i - 1] + 1;
  }
  for (const int coincidences : {same_epoch, same_seed, fixed, neighbours}) EXPECT_LT(coincidences, 10);
}

TEST(Masking, HasTheRightProportions) {
  const SpecialIds special;
  const std::int32_t vocabulary = 1000;
  const Masking masking({}, vocabulary, special);
  std::int64_t eligible = 0, targets = 0, mask = 0, kept = 0, random = 0;
  std::vector<std::int64_t> replacements(vocabulary);
  for (std::int64_t sample = 0; sample < 4000; ++sample) {
    std::vector<std::int32_t> ids(128);
    for (int i = 0; i < 128; ++i) ids[i] = 5 + (i * 7 + static_cast<int>(sample)) % 995;
    ids[0] = special.cls;
    ids[64] = special.unknown;
    ids[127] = special.separator;
    const auto original = ids;
    Targets found;
    masking.apply({1, 0, sample}, ids, found);
    eligible += 125;
    targets += static_cast<std::int64_t>(found.ids.size());
    for (std::size_t i = 0; i < found.ids.size(); ++i) {
      const auto at = found.positions[i];
      EXPECT_EQ(found.ids[i], original[at]);
      EXPECT_FALSE(special.contains(original[at]));
      mask += ids[at] == special.mask;
      kept += ids[at] == original[at];
      if (ids[at] != special.mask && ids[at] != original[at]) {
        ++random;
        EXPECT_FALSE(special.contains(ids[at]));
        ASSERT_LT(ids[at], vocabulary);
        ++replacements[ids[at]];
      }
      EXPECT_TRUE(i == 0 || at > found.positions[i - 1]);
    }
    std::size_t changed = 0;
    for (int i = 0; i < 128; ++i) changed += ids[i] != original[i];
    EXPECT_LE(changed, found.ids.size());
  }
  const auto all = static_cast<double>(targets);
  EXPECT_NEAR(all / static_cast<double>(eligible), 0.15, 0.003);
  EXPECT_NEAR(static_cast<double>(mask) / all, 0.8, 0.01);
  EXPECT_NEAR(static_cast<double>(random) / all, 0.1, 0.01);
  EXPECT_NEAR(static_cast<double>(kept) / all, 0.1, 0.01);
  EXPECT_EQ(replacements[4], 0);
  EXPECT_GT(*std::min_element(replacements.begin() + 900, replacements.end()) +
                *std::max_element(replacements.begin() + 5, replacements.begin() + 100),
            0);
}

TEST(Masking, IsKeyedBySeedEpochAndSample) {
  const Masking masking({}, 1000, {});
  const auto positions = [&](MaskingKey key) {
    std::vector<std::int32_t> ids(100, 10);
    Targets targets;
    masking.apply(key, ids, targets);
    return targets.positions;
  };
  EXPECT_EQ(positions({1, 2, 3}), positions({1, 2, 3}));
  EXPECT_NE(positions({1, 2, 3}), positions({1, 2, 4}));
  EXPECT_NE(positions({1, 2, 3}), positions({1, 3, 3}));
  EXPECT_NE(positions({1, 2, 3}), positions({2, 2, 3}));
  EXPECT_NE(positions({1, 2, 3}), positions({1, 3, 2}));
}

TEST(Masking, GivesEverySequenceATarget) {
  const Masking masking({.probability = 0.001}, 1000, {});
  const Masking limited({.probability = 1, .most_targets = 3}, 1000, {});
  for (std::int64_t sample = 0; sample < 200; ++sample) {
    std::vector<std::int32_t> ids = {2, 50, 60, 3};
    Targets targets;
    masking.apply({0, 0, sample}, ids, targets);
    EXPECT_EQ(targets.ids.size(), 1u);
    ids.assign(20, 9);
    limited.apply({0, 0, sample}, ids, targets);
    EXPECT_EQ(targets.ids.size(), 3u);
    ids = {2, 1, 3};
    limited.apply({0, 0, sample}, ids, targets);
    EXPECT_TRUE(targets.ids.empty()) << "only special pieces";
  }
  EXPECT_THROW(Masking({.probability = 1.5}, 1000, {}), UsageError);
  EXPECT_THROW(Masking({.replace_mask = 0.8, .replace_random = 0.3}, 1000, {}), UsageError);
  EXPECT_THROW(Masking({}, 5, {}), UsageError);
}

// Arrays are padded, so that blocks of other capacities may have as many bytes.
TEST(Batch, IsTakenByPacksOfItsCapacityOnly) {
  const MicroBatchCapacity capacity{.tokens = 8, .sequences = 3, .longest = 4, .masked = 2, .unique_ids = 6};
  Batch batch(capacity);
  const std::int32_t ids[] = {7, 12, 7};
  batch.add_sequence(ids, nullptr, 3);
  finish_batch(batch, 0);
  EXPECT_NO_THROW(PackedBatch::measuring(capacity).check(batch.block()));
  MicroBatchCapacity padded = capacity, larger = capacity;
  padded.tokens = 9;
  larger.tokens = 80;
  EXPECT_EQ(PackedBatch::measuring(padded).block_bytes(), batch.block().size());
  for (const MicroBatchCapacity& other : {padded, larger})
    EXPECT_THAT([&] { PackedBatch::measuring(other).check(batch.block()); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("was filled for another capacity than")));
  Batch nothing;
  EXPECT_THROW(finish_batch(nothing, 0), Error);
}

}  // namespace
}  // namespace comera::data
