#include "model/rank_sizes.h"

#include <gtest/gtest.h>

#include "model/model.h"
#include "tests/model/configs.h"

namespace comera::test {
namespace {

TEST(RankSizes, AreThoseOfTheModelsCores) {
  for (const EncoderConfig& config :
       {small_config(true), removed_config(), small_config(true, HeadKind::regression)}) {
    const Model model(config, host_allocator(), false);
    EXPECT_EQ(tensorized_size(config, ranks_of(config)), model.parameters().count(ParameterRole::core));
  }
  const EncoderConfig six = six_encoder();
  EXPECT_EQ(tensorized_size(six, ranks_of(six)),
            1026528);
  EXPECT_EQ(dense_size(six), 30522 * 768 + 6 * (4 * 768 * 768 + 2 * 768 * 3072) + 768 * 768);
}

TEST(RankSizes, ADenseModelHasNone) {
  const EncoderConfig dense = small_config(false);
  EXPECT_TRUE(ranks_of(dense).empty());
  EXPECT_TRUE(passes_input(dense, {}));
}

// Two blocks; each has two ways: values and output, or both feed-forward layers.
TEST(RankSizes, TheInputPassesAsLongAsOneWayIsWhole) {
  const EncoderConfig config = small_config(true);
  LayerRanks ranks = ranks_of(config);
  const auto remove = [&](const char* layer) { ranks.at(layer) = {0, 0, 0}; };
  remove("encoder.0.attention.output"), remove("encoder.0.ffn.up"), remove("encoder.1.ffn.down");
  EXPECT_TRUE(passes_input(config, ranks));
  remove("encoder.1.attention.query"), remove("encoder.1.attention.key");
  EXPECT_TRUE(passes_input(config, ranks)) << "attention is a mean without them";
  remove("encoder.1.attention.value");
  EXPECT_FALSE(passes_input(config, ranks));
  EXPECT_EQ(removed_layers(config, ranks).size(), 6u);
  EncoderConfig with_dense_values = config;
  with_dense_values.tensorized.attention.reset();
  LayerRanks less = ranks_of(with_dense_values);
  for (const char* layer : {"encoder.0.ffn.up", "encoder.0.ffn.down", "encoder.1.ffn.up"})
    less.at(layer) = {0, 0, 0};
  EXPECT_TRUE(passes_input(with_dense_values, less)) << "dense layers always pass";
}

TEST(RankSizes, TheLeastIsRankOneOfTheEmbeddingTheHeadAndTheCheapestWay) {
  const EncoderConfig config = small_config(true);
  // Σ of modes: embedding 4*2 + 2*2 + 4*3, head 3 + 4 + 4 + 3, attention as the head, twice.
  EXPECT_EQ(least_size(config, ranks_of(config)), 24 + 14 + 2 * 14);
  // Without any attention left, through the feed-forward: 3 + 4 + 4 + 6 and 4 + 6 + 4 + 3.
  LayerRanks ranks = ranks_of(config);
  for (const char* layer : {"encoder.0.attention.value", "encoder.1.attention.output"})
    ranks.at(layer) = {0, 0, 0};
  EXPECT_EQ(least_size(config, ranks), 24 + 14 + 17 + 17);
}

}  // namespace
}  // namespace comera::test
