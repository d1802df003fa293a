// The recipes that are delivered.

#include <gmock/gmock.h>

#include "model/model.h"
#include "recipes/encoder_config.h"
#include "recipes/model_size.h"
#include "reports/model_report.h"
#include "tests/recipes/sample.h"

namespace comera::test {
namespace {

Recipe delivered(const std::string& name, const std::vector<std::string>& overrides = {}) {
  return load_recipe(COMERA_SOURCE_DIR "/recipes/" + name, overrides);
}

TEST(RecipeFiles, SixEncoderHasThePapersSize) {
  const EncoderConfig config = encoder_config(delivered("six_encoder_mnli.toml"));
  const TensorizedConfig& shapes = config.tensorized;
  const std::int64_t cores =
      config.layers * (4 * shapes.attention->core_parameters() + shapes.ffn_up->core_parameters() +
                       shapes.ffn_down->core_parameters()) +
      shapes.head->core_parameters() + shapes.embedding->core_parameters();
  const std::int64_t gates =
      config.layers * (4 * shapes.attention->gates() + shapes.ffn_up->gates() + shapes.ffn_down->gates()) +
      shapes.head->gates() + shapes.embedding->gates();
  EXPECT_EQ(cores, 1026528);
  EXPECT_EQ(gates, 4362);
  EXPECT_EQ(config.norm_eps, 1e-9);
  EXPECT_EQ(config.embedding_std, 1.0);
  EXPECT_EQ(config.head, HeadKind::classification);
}

// The same encoder but for positions, where its vector comes from and a diagonal in the pooler; what compares
// two texts is four times as wide.
TEST(RecipeFiles, SixEncoderForPairsHasTheSameLayers) {
  const EncoderConfig paper = encoder_config(delivered("six_encoder_mnli.toml"));
  const EncoderConfig pairs = encoder_config(delivered("six_encoder_pairs.toml"));
  TensorizedConfig with_diagonal = paper.tensorized;
  with_diagonal.head->diagonal = true;
  EXPECT_EQ(pairs.tensorized, with_diagonal);
  EXPECT_EQ(pairs.pairs, PairEncoding::separate);
  EXPECT_EQ(pairs.positions, Positions::relative);
  EXPECT_EQ(dense_parameters(pairs),
            dense_parameters(paper) - paper.max_positions * paper.hidden + 3 * paper.hidden * paper.classes);
}

// Short sequences first, with an early stage; then long ones, with a late stage.
TEST(RecipeFiles, CodeBertHasTwoPhasesOfWhichTheSecondCompresses) {
  for (const char* name :
       {"codebert_small.toml", "codebert_base.toml", "codebert_large.toml", "codebert_large_muon.toml"}) {
    const Recipe recipe = delivered(name);
    ASSERT_EQ(recipe.phases.size(), 2) << name;
    EXPECT_EQ(recipe.phases[0].length, 128) << name;
    EXPECT_EQ(recipe.phases[0].objective, PhaseObjective::regularize) << name;
    EXPECT_EQ(recipe.phases[1].length, 512) << name;
    EXPECT_EQ(recipe.phases[1].objective, PhaseObjective::compress) << name;
    EXPECT_EQ(encoder_config(recipe).vocabulary, name == std::string("codebert_small.toml") ? 16384 : 50265)
        << name;
  }
}

// What comera plan advises for two hours of two cores, in the shapes that it makes.
TEST(RecipeFiles, SmallIsASizeThatPlanKnows) {
  const Recipe small = delivered("codebert_small.toml");
  EXPECT_EQ(small.run.max_hours, 2.0);
  Recipe sized = small;
  set_size(sized, {.layers = 6, .hidden = 384, .rank = 48}, 16384);
  EXPECT_EQ(sized, small);
}

// The layers and the width of BERT-Mini (Turc et al., 2019), with the vocabulary of bert-base-uncased.
TEST(RecipeFiles, GlueSmallIsAsWideAsBertMini) {
  const Recipe recipe = delivered("glue_small.toml");
  const EncoderConfig config = encoder_config(recipe);
  EXPECT_EQ(config.layers, 4);
  EXPECT_EQ(config.hidden, 256);
  EXPECT_EQ(config.vocabulary, 30522);
  EXPECT_EQ(dense_parameters(config), 11070522);
  EXPECT_EQ(recipe.run.max_hours, 3.0);
  ASSERT_EQ(recipe.phases.size(), 2);
  EXPECT_EQ(recipe.phases[1].length, 128);  // that of glue.toml
}

// The published heights, each with a row more, and layers (Naumov et al., 2019; 540 million numbers).
TEST(RecipeFiles, CriteoKaggleIsThePublishedModel) {
  const Recipe recipe = delivered("dlrm_criteo_kaggle.toml");
  const DlrmConfig config = dlrm_config(recipe);
  EXPECT_EQ(config.tables.size(), 26);
  EXPECT_EQ(config.features(), 367);
  EXPECT_EQ(dense_parameters(config), 540677217 + 26 * 16);
  std::int64_t own = 0;
  for (const DlrmLayer& layer : layers_of(config)) own += layer.parameters();
  EXPECT_EQ(own, 1425105);
  EXPECT_EQ(dlrm_config(delivered("dlrm_criteo_kaggle.toml", {"tensorized.enabled=false"})),
            dense_baseline(config));
  EXPECT_EQ(parse_recipe(to_toml(recipe), "again"), recipe);
  EXPECT_NO_THROW(dlrm_config(delivered("dlrm_small.toml"), 13, {100, 20}));
}

// Heights are no modes, whose product has a limit: that of these is more than a double holds.
TEST(RecipeFiles, AModelMayHaveManyTables) {
  Recipe recipe = delivered("dlrm_small.toml");
  recipe.dlrm->tables.assign(100, 300000);
  EXPECT_EQ(parse_recipe(to_toml(recipe), "again"), recipe);
}

// The paper: 355 million numbers, 4.23 times more than the tensor trains with the dense embedding.
TEST(RecipeFiles, LargeHasThePapersRatio) {
  const EncoderConfig config = encoder_config(delivered("codebert_large.toml"));
  EXPECT_FALSE(config.tensorized.embedding);
  const Model model(config, host_allocator(), false);
  const std::int64_t dense = dense_parameters(config), own = model.parameters().count();
  EXPECT_NEAR(static_cast<double>(dense), 355e6, 0.5e6);
  EXPECT_NEAR(static_cast<double>(dense) / static_cast<double>(own), 4.23, 0.015);
}

TEST(RecipeFiles, QuickstartTakesTheTokenizersVocabulary) {
  const Recipe recipe = delivered("quickstart.toml");
  EXPECT_EQ(encoder_config(recipe, 8192).vocabulary, 8192);
  EXPECT_THROW(encoder_config(recipe), UsageError);
  EXPECT_THROW(encoder_config(recipe, 8193), UsageError);
  const auto frequent_rows = [&](std::int64_t vocabulary) {
    return encoder_config(recipe, vocabulary).tensorized.embedding->frequent_rows;
  };
  EXPECT_EQ(frequent_rows(8192), 2048);
  EXPECT_EQ(frequent_rows(301), 150);  // at most half
  const Recipe small = delivered("quickstart.toml", {"tensorized.embedding.row_modes=[8, 16, 16]",
                                                     "tensorized.embedding.ranks=[32, 48]"});
  EXPECT_EQ(encoder_config(small, 2000).tensorized.embedding->frequent_rows, 1000);
}

// The message has what is to be set besides.
TEST(RecipeFiles, NarrowTablesNeedOtherShapes) {
  const auto config_with = [](std::vector<std::string> overrides) {
    overrides.emplace_back("model.embedding_size=128");
    return encoder_config(delivered("quickstart.toml", overrides), 8192);
  };
  EXPECT_THAT(
      [&] { config_with({}); },
      testing::ThrowsMessage<UsageError>(testing::HasSubstr(
          "model.embedding_size = 128 is not the width that the recipe's embedding and head are made for; "
          "give --set tensorized.embedding.column_modes=[4,4,4] --set tensorized.embedding.ranks=[48,48] "
          "--set tensorized.head.output_modes=[16,8] --set tensorized.head.ranks=[16,32,8]")));
  const EncoderConfig narrow =
      config_with({"tensorized.embedding.column_modes=[4,4,4]", "tensorized.head.output_modes=[16,8]",
                   "tensorized.head.ranks=[16,32,8]"});
  EXPECT_EQ(narrow.table_width(), 128);
  EXPECT_NO_THROW(config_with({"tensorized.enabled=false"}));
  const EncoderConfig projected = encoder_config(
      delivered("quickstart.toml",
                {"tensorized.embedding.column_modes=[4,4,8]", "tensorized.embedding.projection=true"}),
      8192);
  EXPECT_EQ(projected.table_width(), 256);
  EXPECT_THAT(
      [&] {
        encoder_config(delivered("quickstart.toml", {"tensorized.embedding.column_modes=[4,8,8]",
                                                     "tensorized.embedding.projection=true"}),
                       8192);
      },
      testing::ThrowsMessage<UsageError>(
          testing::HasSubstr("multiply to 256, but a projection needs fewer columns than the width of 256; "
                             "choose smaller column modes")));
  const auto with_rows = [](const std::string& rows, const std::string& other) {
    return encoder_config(delivered("quickstart.toml", {"model.vocabulary=8000",
                                                        "tensorized.embedding.frequent_rows=" + rows, other}),
                          8000);
  };
  EXPECT_EQ(with_rows("7999", "run.seed=1").tensorized.embedding->frequent_rows, 7999);
  // Where the tokenizer's vocabulary is not known yet.
  EXPECT_NO_THROW(
      encoder_config(delivered("quickstart.toml", {"tensorized.embedding.frequent_rows=1000"}), 1));
  EXPECT_THAT([&] { with_rows("8000", "run.seed=1"); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr(
                  "frequent_rows = 8000 leaves nothing to the tensor train of a vocabulary of 8000")));
  EXPECT_THAT([&] { with_rows("8192", "run.seed=1"); },
              testing::ThrowsMessage<UsageError>(
                  testing::HasSubstr("8192 frequent rows of 8192: the train needs rows too")));
  EXPECT_THAT([&] { with_rows("1000", "tensorized.lookup=unique"); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr(
                  "tensorized.embedding.frequent_rows needs tensorized.lookup = \"factors\"")));
}

TEST(RecipeFiles, TheDenseBaselineHasNoTensorTrains) {
  const EncoderConfig dense =
      encoder_config(delivered("quickstart.toml", {"tensorized.enabled=false", "model.hidden=100"}), 9000);
  EXPECT_FALSE(dense.tensorized.attention || dense.tensorized.embedding);
  EXPECT_EQ(dense.hidden, 100);
}

TEST(RecipeFiles, ATokenizerLargerThanTheModelIsRefused) {
  EXPECT_THROW(encoder_config(delivered("codebert_base.toml"), 50266), UsageError);
  EXPECT_NO_THROW(encoder_config(delivered("codebert_base.toml"), 50000));
}

TEST(RecipeFiles, TrainingNeedsDataAndAPlace) {
  EXPECT_THROW(require_training_keys(delivered("quickstart.toml")), UsageError);
  EXPECT_NO_THROW(require_training_keys(delivered("quickstart.toml", {"data.train=d", "data.tokenizer=t"})));
}

TEST(HeadKinds, AreReadBackByTheirNames) {
  for (const HeadKind head :
       {HeadKind::mlm, HeadKind::classification, HeadKind::regression, HeadKind::multi_label,
        HeadKind::token_classification, HeadKind::question_answering, HeadKind::contrastive}) {
    Recipe recipe = parse_recipe(sample, "r.toml", {});
    recipe.model.head = head;
    EXPECT_EQ(parse_stored_recipe(to_toml(recipe), "r.toml").model.head, head) << name_of(head);
  }
}

}  // namespace
}  // namespace comera::test
