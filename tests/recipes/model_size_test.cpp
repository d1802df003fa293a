#include "recipes/model_size.h"
#include "recipes/encoder_config.h"

#include <gmock/gmock.h>

#include "tests/recipes/sample.h"

namespace comera::test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ModelSize, AreTheShapesOfTheRecipesThatAreThere) {
  Recipe base = load_recipe(COMERA_SOURCE_DIR "/recipes/codebert_base.toml");
  const Recipe as_written = base;
  base.model.layers = base.model.heads = 1;
  base.tensorized.attention = base.tensorized.ffn_down = std::nullopt;
  set_size(base, {.layers = 12, .hidden = 768, .rank = 64}, 50265);
  EXPECT_EQ(base.model, as_written.model);
  EXPECT_EQ(base.tensorized.attention, as_written.tensorized.attention);
  EXPECT_EQ(base.tensorized.ffn_up, as_written.tensorized.ffn_up);
  EXPECT_EQ(base.tensorized.ffn_down, as_written.tensorized.ffn_down);
  EXPECT_EQ(base.tensorized.head, as_written.tensorized.head);
  EXPECT_EQ(base.tensorized.embedding->row_modes, as_written.tensorized.embedding->row_modes);
  EXPECT_EQ(base.tensorized.embedding->ranks, as_written.tensorized.embedding->ranks);
}

// Every width that a plan may advise is a model that can be made.
TEST(ModelSize, OfEveryWidthCanBeMade) {
  Recipe recipe = parse_recipe(sample, "r.toml");
  for (const std::int64_t hidden : {64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 1024})
    for (const std::int64_t rank : {1, 8, 16, 32, 64})
      for (const std::int64_t vocabulary : {1, 300, 8192, 16384, 30522, 50265}) {
        set_size(recipe, {.layers = 2, .hidden = hidden, .rank = rank}, vocabulary);
        recipe.model.max_positions = 512;
        const EncoderConfig config = encoder_config(recipe);
        EXPECT_EQ(config.hidden, hidden);
        EXPECT_GE(config.tensorized.embedding->rows(), vocabulary);
        EXPECT_EQ(config.tensorized.attention->middle_rank(), rank);
        EXPECT_EQ(parse_recipe(to_toml(recipe), "again.toml"), recipe);
        Recipe projected = recipe;
        projected.tensorized.embedding->projection = true;
        projected.tensorized.embedding->frequent_rows = 100000;  // at most half of the vocabulary
        set_size(projected, {.layers = 2, .hidden = hidden, .rank = rank}, vocabulary);
        EXPECT_TRUE(projected.tensorized.embedding->projection);
        EXPECT_EQ(projected.tensorized.embedding->frequent_rows, vocabulary / 2);
        EXPECT_EQ(encoder_config(projected).tensorized.embedding->columns(), hidden / 2);
      }
}

TEST(ModelSize, ThatCannotBeIsRefused) {
  Recipe recipe = parse_recipe(sample, "r.toml");
  EXPECT_THAT([&] { set_size(recipe, {.layers = 2, .hidden = 100, .rank = 8}, 100); },
              ThrowsMessage<Error>(HasSubstr("a multiple of 64")));
  EXPECT_THAT([&] { set_size(recipe, {.layers = 2, .hidden = 64, .rank = 65}, 100); },
              ThrowsMessage<Error>(HasSubstr("a rank of 65 in an encoder of width 64")));
}

}  // namespace
}  // namespace comera::test
