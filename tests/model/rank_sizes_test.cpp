#include "model/rank_sizes.h"

#include <gmock/gmock.h>

#include "model/model.h"
#include "tests/model/configs.h"

namespace comera::test {
namespace {

TEST(RankSizes, AreThoseOfTheModelsCores) {
  for (const EncoderConfig& config : {small_config(true), removed_config(), projected_config(),
                                      frequent_config(), small_config(true, HeadKind::regression)}) {
    const Model model(config, host_allocator(), false);
    EXPECT_EQ(tensorized_size(config, ranks_of(config)), model.parameters().count(ParameterRole::core));
  }
  const EncoderConfig six = six_encoder();
  EXPECT_EQ(tensorized_size(six, ranks_of(six)), 1026528);
  EXPECT_EQ(dense_size(six), 30522 * 768 + 6 * (4 * 768 * 768 + 2 * 768 * 3072) + 768 * 768);
}

// Without a diagonal in the next layer, a layer is of no use when that is removed.
TEST(RankSizes, LayersNeedTheNextOneUnlessADiagonalTakesItsPlace) {
  const auto needs = [](const EncoderConfig& config) {
    int count = 0;
    for (const RankedLayer& layer : Model(config, host_allocator(), false).ranked_layers())
      count += layer.needs >= 0;
    return count;
  };
  EXPECT_EQ(needs(small_config(true)), 2 * (3 + 1));
  EXPECT_EQ(needs(diagonal_config()), 0);
  EncoderConfig of_ffn = small_config(true);
  of_ffn.tensorized.ffn_down->diagonal = true;
  EXPECT_EQ(needs(of_ffn), 2 * 3);
}

TEST(RankSizes, ADenseModelHasNone) {
  const EncoderConfig dense = small_config(false);
  EXPECT_TRUE(ranks_of(dense).empty());
  EXPECT_TRUE(is_connected(dense, {}));
}

TEST(RankSizes, TokensSeeOneAnotherThroughValuesAndOutputOfSomeAttention) {
  const EncoderConfig config = small_config(true);
  LayerRanks ranks = ranks_of(config);
  const auto remove = [&](const char* layer) { ranks.at(layer) = {0, 0, 0}; };
  remove("encoder.0.attention.output"), remove("encoder.1.attention.query"),
      remove("encoder.1.attention.key");
  EXPECT_TRUE(is_connected(config, ranks)) << "attention is a mean without queries and keys";
  remove("encoder.1.attention.value");
  EXPECT_FALSE(is_connected(config, ranks)) << "a feed-forward looks at one token";
  EXPECT_EQ(removed_layers(config, ranks).size(), 4u);
  // A diagonal passes values on without a train.
  EncoderConfig with_diagonals = config;
  with_diagonals.tensorized.attention->diagonal = true;
  EXPECT_TRUE(is_connected(with_diagonals, ranks));
  EncoderConfig with_dense_attention = config;
  with_dense_attention.tensorized.attention.reset();
  EXPECT_TRUE(is_connected(with_dense_attention, ranks_of(with_dense_attention)));
  EncoderConfig mean = small_config(true, HeadKind::regression);
  LayerRanks none = ranks_of(mean);
  for (auto& [layer, list] : none)
    if (layer.starts_with("encoder.")) list = {0, 0, 0};
  EXPECT_TRUE(is_connected(mean, none)) << "the head looks at the mean of all tokens";
  mean.pooling = Pooling::first;
  EXPECT_FALSE(is_connected(mean, none));
}

TEST(RankSizes, TheLeastIsRankOneOfTheEmbeddingTheHeadAndOneAttention) {
  const EncoderConfig config = small_config(true);
  // Σ of modes: embedding 4*2 + 2*2 + 4*3, head 3 + 4 + 4 + 3, values and output as the head.
  EXPECT_EQ(least_size(config, ranks_of(config)), 24 + 14 + 2 * 14);
  const EncoderConfig mean = small_config(true, HeadKind::regression);
  EXPECT_EQ(least_size(mean, ranks_of(mean)), 24 + 14);
}

TEST(RankSizes, TheFirstAttentionThroughWhichTokensSeeOneAnother) {
  using testing::ElementsAre;
  const EncoderConfig config = small_config(true);
  LayerRanks ranks = ranks_of(config);
  EXPECT_THAT(connecting_layers(config, ranks),
              ElementsAre("encoder.0.attention.value", "encoder.0.attention.output"));
  ranks.at("encoder.0.attention.value") = {0, 0, 0};
  EXPECT_THAT(connecting_layers(config, ranks),
              ElementsAre("encoder.1.attention.value", "encoder.1.attention.output"));
  EncoderConfig dense = config;
  dense.tensorized.attention.reset();
  EXPECT_THAT(connecting_layers(dense, ranks_of(dense)), ElementsAre());
  const EncoderConfig mean = small_config(true, HeadKind::regression);
  EXPECT_THAT(connecting_layers(mean, ranks_of(mean)), ElementsAre());
}

}  // namespace
}  // namespace comera::test
