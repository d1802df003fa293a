#include <gmock/gmock.h>

#include "recipes/encoder_config.h"
#include "tests/recipes/sample.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

// The sample with a section of ranks.
std::string with_ranks(const std::string& lines) {
  return edited("[[phase]]", "[tensorized.ranks]\n" + lines + "\n[[phase]]");
}

TEST(RecipeRanks, AreReadAndWritten) {
  const LayerRanks expected{{"encoder.0.attention.query", {3, 9, 5}},
                            {"encoder.1.attention.output", {1, 1, 1}}};
  const Recipe dotted = parse_recipe(
      with_ranks("encoder.0.attention.query = [3, 9, 5]\nencoder.1.attention.output = [1, 1, 1]"), "r.toml");
  const Recipe quoted = parse_recipe(
      with_ranks("\"encoder.0.attention.query\" = [3, 9, 5]\n[tensorized.ranks.encoder.1.attention]\n"
                 "output = [1, 1, 1]"),
      "r.toml");
  EXPECT_EQ(dotted.tensorized.ranks, expected);
  EXPECT_EQ(quoted, dotted);
  EXPECT_EQ(parse_recipe(to_toml(dotted), "written"), dotted) << to_toml(dotted);
  EXPECT_EQ(encoder_config(dotted).tensorized.ranks, expected);
}

// Zeros remove a layer, of which the model then has no cores; only a single layer's, not a kind's.
TEST(RecipeRanks, OfZeroRemoveALayer) {
  const Recipe recipe = parse_recipe(with_ranks("encoder.0.attention.query = [0, 0, 0]"), "r.toml");
  EXPECT_EQ(recipe.tensorized.ranks, (LayerRanks{{"encoder.0.attention.query", {0, 0, 0}}}));
  EXPECT_EQ(parse_recipe(to_toml(recipe), "written"), recipe) << to_toml(recipe);
  EXPECT_TRUE(encoder_config(recipe).linear_layers()[0].shape->removed());
  EXPECT_FALSE(encoder_config(recipe).linear_layers()[1].shape->removed());
  EXPECT_THAT(refusal(edited("ranks = [8, 16, 8]", "ranks = [0, 0, 0]")),
              HasSubstr("a list of positive integers of at most 65536"));
  const std::string head =
      "[tensorized.head]\ninput_modes = [8, 8]\noutput_modes = [8, 8]\n"
      "ranks = [8, 16, 8]\n[tensorized.ranks]\nhead.transform = [0, 0, 0]\n\n[[phase]]";
  EXPECT_THAT(refusal(edited("[[phase]]", head)),
              HasSubstr("tensorized.ranks.head.transform: this layer cannot be removed"));
}

TEST(RecipeRanks, CanBeOverridden) {
  const std::string text = with_ranks("encoder.0.attention.query = [3, 9, 5]");
  const Recipe recipe = parse_recipe(text, "r.toml",
                                     {"tensorized.ranks.encoder.0.attention.query=[2, 2, 2]",
                                      "tensorized.ranks.encoder.1.attention.key=[1, 2, 1]"});
  EXPECT_EQ(recipe.tensorized.ranks,
            (LayerRanks{{"encoder.0.attention.query", {2, 2, 2}}, {"encoder.1.attention.key", {1, 2, 1}}}));
}

TEST(RecipeRanks, MistakesAreErrorsWithTheirPlace) {
  const auto refused = [](const std::string& lines) { return refusal(with_ranks(lines)); };
  EXPECT_THAT(refused("encoder.0.attention.query = [3, 99, 5]"),
              HasSubstr("r.toml:15:29: tensorized.ranks.encoder.0.attention.query: rank 99 of bond 2"));
  EXPECT_THAT(refused("encoder.0.attention.query = [3, 9]"), HasSubstr("4 modes need 3 ranks"));
  EXPECT_THAT(refused("encoder.0.attention.query = [3, 9.5, 1]"), HasSubstr("a list of integers from 0"));
  EXPECT_THAT(refused("encoder.0.attention.query = [3, -1, 1]"), HasSubstr("a list of integers from 0"));
  EXPECT_THAT(refused("encoder.0.attention.query = [3, 0, 1]"),
              HasSubstr("r.toml:15:29: tensorized.ranks.encoder.0.attention.query: rank 0 of bond 2 is "
                        "impossible beside other ranks; to remove the layer, set every rank to 0"));
  EXPECT_THAT(refused("encoder.0.attention.query = 3"), HasSubstr("a list of integers from 0"));
  EXPECT_THAT(refused("encoder.2.attention.query = [3, 9, 5]"), HasSubstr("no layer of that name"));
  EXPECT_THAT(refused("encoder.0.ffn.up = [3, 9, 5]"), HasSubstr("the layer is dense"));
  EXPECT_THAT(refused("\"a layer\" = [3, 9, 5]"), HasSubstr("does not name a layer"));
  EXPECT_THAT(refusal(edited("[[phase]]", "[tensorized]\nranks = [1]\n[[phase]]")),
              HasSubstr("tensorized.ranks is a list; expected"));
  EXPECT_THAT(refusal(sample, {"tensorized.ranks.encoder.0.attention.key=[1, 77, 1]"}),
              HasSubstr("--set tensorized.ranks.encoder.0.attention.key=[1, 77, 1]: "));
}

// Shapes of a dense baseline are not looked at; neither are ranks.
TEST(RecipeRanks, OfADenseBaselineAreKept) {
  const Recipe recipe =
      parse_recipe(with_ranks("encoder.7.ffn.up = [3, 9, 5]"), "r.toml", {"tensorized.enabled=false"});
  EXPECT_EQ(parse_recipe(to_toml(recipe), "written"), recipe);
  EXPECT_TRUE(encoder_config(recipe).tensorized.ranks.empty());
}

}  // namespace
}  // namespace comera::test
