#include "model/layers/positions.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "tests/model/configs.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

TEST(HeadSlopes, OfEveryFourHeadsOneLooksBackAndOneAhead) {
  constexpr double blind = blind_slope;
  EXPECT_THAT(head_slopes(1), ElementsAre(HeadSlopes{1. / 4, 1. / 4}));
  EXPECT_THAT(head_slopes(2), ElementsAre(HeadSlopes{1, blind}, HeadSlopes{blind, 1}));
  EXPECT_THAT(head_slopes(4), ElementsAre(HeadSlopes{1, blind}, HeadSlopes{blind, 1},
                                          HeadSlopes{1. / 4, 1. / 4}, HeadSlopes{1. / 16, 1. / 16}));
  const std::vector<HeadSlopes> eight = head_slopes(8);
  const double expected[8][2] = {{1, blind},
                                 {blind, 1},
                                 {1. / 4, blind},
                                 {blind, 1. / 4},
                                 {1. / 4, 1. / 4},
                                 {std::exp2(-10. / 3), std::exp2(-10. / 3)},
                                 {std::exp2(-14. / 3), std::exp2(-14. / 3)},
                                 {1. / 64, 1. / 64}};
  ASSERT_EQ(std::ssize(eight), 8);
  for (int head = 0; head < 8; ++head) {
    EXPECT_DOUBLE_EQ(eight[head].before, expected[head][0]) << head;
    EXPECT_DOUBLE_EQ(eight[head].behind, expected[head][1]) << head;
  }
  // With n heads that see both sides, the last has 2^-(2 + n), but for n = 1.
  EXPECT_EQ(head_slopes(3).back(), (HeadSlopes{1. / 4, 1. / 4}));
  EXPECT_EQ(head_slopes(5).back(), (HeadSlopes{1. / 32, 1. / 32}));
  EXPECT_EQ(head_slopes(7).back(), (HeadSlopes{1. / 128, 1. / 128}));
  for (const std::int64_t heads : {12, 16}) {
    const std::vector<HeadSlopes> slopes = head_slopes(heads);
    ASSERT_EQ(std::ssize(slopes), heads);
    EXPECT_EQ(slopes[heads / 2 - 2], (HeadSlopes{1. / 4, blind})) << heads;
    EXPECT_EQ(slopes[heads / 2], (HeadSlopes{1. / 4, 1. / 4})) << heads;
    EXPECT_EQ(slopes.back(), (HeadSlopes{1. / 256, 1. / 256})) << heads;
  }
}

EncoderConfig config_with(Positions positions, bool tensorized) {
  EncoderConfig config = small_config(tensorized);
  config.positions = positions;
  // Attention of ranks below the head's size goes between the halves.
  if (tensorized) config.tensorized.attention->ranks = {3, 3, 3};
  return config;
}

TEST(RotaryTurns, AreCosinesAndSinesOfGrowingAngles) {
  const std::vector<double> turns = rotary_turns(0, 3, 4, 100);
  const double slow = 1. / 10;  // 100^(-2 / 4)
  EXPECT_THAT(turns, Pointwise(DoubleNear(1e-15),
                               {1., 1., 0., 0.,  //
                                std::cos(1.), std::cos(slow), std::sin(1.), std::sin(slow), std::cos(2.),
                                std::cos(2 * slow), std::sin(2.), std::sin(2 * slow)}));
  EXPECT_THAT(rotary_turns(2, 1, 4, 100), testing::ElementsAreArray(turns.begin() + 8, turns.end()));
}

TEST(RotaryTurns, TheSlowestPairTurnsAsTheRecipeSays) {
  for (const std::int64_t size : {2, 4, 64}) {
    const std::vector<double> turns = rotary_turns(1, 1, size, 1000);
    const double angle = std::pow(1000, 2 / static_cast<double>(size) - 1);
    EXPECT_NEAR(turns[size / 2 - 1], std::cos(angle), 1e-15) << size;
    EXPECT_NEAR(turns[size - 1], std::sin(angle), 1e-15) << size;
  }
}

// A device whose memory is the host's: what is sent to it is counted.
class FarAllocator final : public Allocator {
 public:
  explicit FarAllocator(bool full) : Allocator({DeviceKind::cuda, 0}), full_(full) {}
  void upload(void* device_memory, const void* host, std::size_t bytes, const Stream&) override {
    std::memcpy(device_memory, host, bytes);
    largest = std::max(largest, bytes);
  }
  void download(void* host, const void* device_memory, std::size_t bytes, const Stream&) override {
    std::memcpy(host, device_memory, bytes);
  }
  void synchronize(const Stream&) override {}

  std::size_t largest = 0;  // bytes sent at once

 private:
  void* do_allocate(std::size_t bytes) override { return full_ ? nullptr : std::calloc(bytes, 1); }
  void do_deallocate(void* data, std::size_t) noexcept override { std::free(data); }

  bool full_;
};

TEST(RotaryTurns, AreWrittenAFewRowsAtATime) {
  EncoderConfig config = config_with(Positions::rotary, false);
  config.max_positions = 100003;  // a prime
  const std::int64_t size = config.hidden / config.heads;
  FarAllocator allocator(false);
  ParameterStore store;
  const PositionTables tables(store, config, allocator);
  ASSERT_EQ(tables.turns().elements(), config.max_positions * size);
  EXPECT_LE(allocator.largest, 1u << 20);
  const std::vector<double> expected = rotary_turns(0, config.max_positions, size, config.rotary_theta);
  const std::vector<double> found = read_tensor(tables.turns(), allocator);
  EXPECT_TRUE(std::ranges::equal(found, expected, [](double a, double b) { return std::abs(a - b) < 1e-7; }));
}

TEST(RotaryTurns, WithoutMemoryItIsSaidWhatHelps) {
  FarAllocator allocator(true);
  ParameterStore store;
  const EncoderConfig config = config_with(Positions::rotary, false);
  EXPECT_THAT(
      [&] { PositionTables(store, config, allocator); },
      testing::ThrowsMessage<OutOfMemory>(testing::AllOf(
          testing::HasSubstr("16 rotary positions"), testing::HasSubstr("model.max_positions"),
          testing::HasSubstr("--length"), testing::Not(testing::HasSubstr("tokens_per_micro_batch")))));
}

// As transformers 5.24 has them (MPNetEncoder.relative_position_bucket).
TEST(BucketsOfDistances, GrowLikePowers) {
  const std::vector<std::int32_t> all = buckets_of_distances(200, 32);
  ASSERT_EQ(std::ssize(all), 399);
  const auto bucket = [&](int distance) { return all[199 + distance]; };
  const std::pair<int, int> expected[] = {{0, 0},    {1, 1},    {7, 7},   {8, 8},   {11, 8},  {12, 9},
                                          {15, 9},   {16, 10},  {22, 10}, {23, 11}, {31, 11}, {32, 12},
                                          {45, 12},  {46, 13},  {63, 13}, {64, 14}, {90, 14}, {91, 15},
                                          {127, 15}, {128, 15}, {199, 15}};
  for (const auto& [distance, number] : expected) {
    EXPECT_EQ(bucket(-distance), number) << distance;
    if (distance > 0) EXPECT_EQ(bucket(distance), 16 + number) << distance;
  }
  EXPECT_THAT(buckets_of_distances(4, 4), ElementsAre(1, 1, 1, 0, 3, 3, 3));
}

// A dense encoder's output for one sequence of these tokens, the first of which is at position `first`.
std::vector<double> encoded(const EncoderConfig& config, const std::vector<std::int32_t>& tokens, int first,
                            const std::function<void(Model&)>& prepare = nullptr) {
  Model model(config, host_allocator(), false);
  model.parameters().initialize(11);
  if (prepare) prepare(model);
  const PackedBatch batch = random_batch({static_cast<int>(tokens.size())}, config.vocabulary,
                                         model.token_embedding().right_rows(), 1, 0);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    batch.token_ids.data<std::int32_t>()[i] = tokens[i];
    batch.position_ids.data<std::int32_t>()[i] = first + static_cast<int>(i);
    batch.type_ids.data<std::int32_t>()[i] = 0;
  }
  Harness harness(reference_backend());
  return read_tensor(model.encode(
      {{harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), false},
       batch}));
}

class OfPositions : public testing::TestWithParam<Positions> {};

const std::vector<std::int32_t> some_tokens = {4, 9, 3, 17, 25, 8, 11};

TEST_P(OfPositions, OnlyDistancesMatter) {
  const EncoderConfig config = config_with(GetParam(), false);
  const double moved = relative_error(encoded(config, some_tokens, 5), encoded(config, some_tokens, 0));
  if (GetParam() == Positions::learned)
    EXPECT_GT(moved, 1e-2);
  else
    EXPECT_LT(moved, 1e-13);
}

TEST_P(OfPositions, TheOrderOfTokensMatters) {
  const EncoderConfig config = config_with(GetParam(), false);
  const std::vector<double> forwards = encoded(config, some_tokens, 0);
  std::vector<double> backwards =
      encoded(config, std::vector<std::int32_t>(some_tokens.rbegin(), some_tokens.rend()), 0);
  std::vector<double> turned;
  for (auto row = static_cast<std::int64_t>(some_tokens.size()) - 1; row >= 0; --row)
    turned.insert(turned.end(), backwards.begin() + row * config.hidden,
                  backwards.begin() + (row + 1) * config.hidden);
  EXPECT_GT(relative_error(turned, forwards), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(All, OfPositions,
                         testing::Values(Positions::learned, Positions::rotary, Positions::relative),
                         [](const auto& test) {
                           return std::string(test.param == Positions::learned  ? "learned"
                                              : test.param == Positions::rotary ? "rotary"
                                                                                : "relative");
                         });

// Scores of a table that falls by s with each of three distances are those of a slope s.
TEST(BiasesByDistance, AreAddedToScores) {
  EncoderConfig config = config_with(Positions::relative, false);
  const std::vector<std::int32_t> tokens = {4, 9, 3, 17};
  const std::vector<double> sloped = encoded(config, tokens, 0);
  const std::vector<HeadSlopes> slopes = head_slopes(config.heads);
  config.positions = Positions::learned, config.relative_buckets = 16;  // 0 to 3 of each side have their own
  const auto falling = [&](Model& model) {
    const ParameterStore& store = model.parameters();
    std::vector<double> table(static_cast<std::size_t>(16 * config.heads));
    for (int distance = 1; distance < 4; ++distance)
      for (std::int64_t h = 0; h < config.heads; ++h) {
        table[distance * config.heads + h] = -slopes[h].before * distance;
        table[(8 + distance) * config.heads + h] = -slopes[h].behind * distance;
      }
    write_tensor(store.value(*store.find("embedding.relative_bias")), table);
    const Tensor positions = store.value(*store.find("embedding.positions"));
    write_tensor(positions, std::vector<double>(static_cast<std::size_t>(positions.elements()), 0));
  };
  EXPECT_LT(relative_error(encoded(config, tokens, 0, falling), sloped), 1e-13);
  EXPECT_GT(relative_error(encoded(config, tokens, 0), sloped), 1e-2);
}

TEST(BiasesByDistance, BelongToLearnedPositions) {
  const auto refusal = [](const EncoderConfig& config) -> std::string {
    try {
      config.validate();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EncoderConfig config = config_with(Positions::learned, false);
  config.relative_buckets = 7;
  EXPECT_THAT(refusal(config), testing::HasSubstr("an even number from 4 to 256"));
  config.relative_buckets = 8;
  EXPECT_EQ(refusal(config), "");
  config.positions = Positions::rotary;
  EXPECT_THAT(refusal(config), testing::HasSubstr("\"learned\" only"));
  config = small_config(false, HeadKind::replaced_tokens);
  config.relative_buckets = 8;
  EXPECT_THAT(refusal(config), testing::HasSubstr("generator"));
}

TEST(Positions, OnlyLearnedOnesHaveParameters) {
  for (const bool tensorized : {false, true})
    for (const Positions positions : {Positions::learned, Positions::rotary, Positions::relative}) {
      const Model model(config_with(positions, tensorized), host_allocator(), false);
      EXPECT_EQ(model.parameters().find("embedding.positions").has_value(), positions == Positions::learned);
    }
}

TEST(Positions, RotaryHeadsMustBePairs) {
  EncoderConfig config = config_with(Positions::rotary, false);
  config.heads = 4;  // of 3 numbers
  try {
    config.validate();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("choose another number of heads"));
  }
}

}  // namespace
}  // namespace comera::test
