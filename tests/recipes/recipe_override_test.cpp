#include <gmock/gmock.h>

#include "tests/recipes/sample.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

Recipe overridden(const std::vector<std::string>& overrides) {
  return parse_recipe(sample, "r.toml", overrides);
}

TEST(RecipeOverride, Replaces) {
  const Recipe recipe = overridden({"phase.0.steps=100", "model.layers=3", "tensorized.enabled=false"});
  EXPECT_EQ(recipe.phases[0].steps, 100);
  EXPECT_EQ(recipe.model.layers, 3);
  EXPECT_FALSE(recipe.tensorized.enabled);
}

TEST(RecipeOverride, StepsTakeThePlaceOfEpochsAndBack) {
  const Recipe passes = overridden({"phase.0.epochs=2"});
  EXPECT_EQ(passes.phases[0].epochs, 2);
  EXPECT_FALSE(passes.phases[0].steps);
  std::string by_passes(sample);
  by_passes.replace(by_passes.find("steps = 10"), 10, "epochs = 3");
  const Recipe steps = parse_recipe(by_passes, "r.toml", {"phase.0.steps=7"});
  EXPECT_EQ(steps.phases[0].steps, 7);
  EXPECT_FALSE(steps.phases[0].epochs);
  EXPECT_THROW(overridden({"phase.0.steps=7", "phase.0.epochs=2"}), std::exception);
}

TEST(RecipeOverride, AddsSectionsAndKeys) {
  const Recipe recipe =
      overridden({"optim.eps=1e-7", "tensorized.ffn_up.input_modes=[8,8]",
                  "tensorized.ffn_up.output_modes=[8,16]", "tensorized.ffn_up.ranks=[8,8,8]"});
  EXPECT_EQ(recipe.optim.eps, 1e-7);
  EXPECT_EQ(recipe.tensorized.ffn_up->output_modes, (std::vector<std::int64_t>{8, 16}));
}

TEST(RecipeOverride, BareWordsAreStrings) {
  const Recipe recipe =
      overridden({"model.norm=pre", "run.output=/tmp/some-run.1", "data.train=\"two words\""});
  EXPECT_EQ(recipe.model.norm, NormPlacement::pre);
  EXPECT_EQ(recipe.run.output, "/tmp/some-run.1");
  EXPECT_EQ(recipe.data.train, "two words");
}

TEST(RecipeOverride, TheLastOneHolds) {
  EXPECT_EQ(overridden({"model.layers=3", "model.layers=4", "model.layers=5"}).model.layers, 5);
}

TEST(RecipeOverride, LearningRates) {
  EXPECT_EQ(overridden({"phase.0.learning_rate={cores = 1e-4, gates = 1e-3, other = 5e-5}"})
                .phases[0]
                .learning_rate,
            (LearningRates{1e-4, 1e-3, 5e-5}));
  const LearningRates four{1e-4, 1e-3, 5e-5, 2e-3};
  const std::string text =
      "phase.0.learning_rate={cores = 1e-4, embedding = 2e-3, gates = 1e-3, other = 5e-5}";
  EXPECT_EQ(overridden({text}).phases[0].learning_rate, four);
  EXPECT_EQ(parse_recipe(to_toml(overridden({text})), "again", {}).phases[0].learning_rate, four);
  for (const char* wrong :
       {"{cores = 1, gates = 1}", "{cores = 1, gates = 1, other = 1, heads = 1}",
        "{cores = 1, embedding = -1, gates = 1, other = 1}", "{cores = 1, embedding = 1, gates = 1}"})
    EXPECT_THAT(refusal(sample, {std::string("phase.0.learning_rate=") + wrong}),
                HasSubstr("{cores = ..., gates = ..., other = ...}, to which embedding = ... may be added"))
        << wrong;
  EXPECT_THAT(refusal(sample, {"phase.0.learning_rate.cores=1"}),
              HasSubstr("phase.0.learning_rate is 0.001 in the recipe and has no keys within"));
}

// A rate of whole matrices is none of AdamW's.
TEST(RecipeOverride, MuonNeedsARateOfTheEmbeddingsCores) {
  EXPECT_EQ(overridden({"optim.name=muon"}).optim.kind, OptimizerKind::muon) << "the embedding is dense";
  const std::vector<std::string> tensorized = {
      "optim.name=muon", "tensorized.embedding={row_modes=[8,16], column_modes=[8,8], ranks=[4]}"};
  EXPECT_THAT(refusal(sample, tensorized),
              HasSubstr("phase.0.learning_rate has one rate for the cores of layers and of the embedding"));
  std::vector<std::string> both = tensorized;
  both.emplace_back("phase.0.learning_rate={cores=0.02, embedding=0.1, gates=0.1, other=0.1}");
  EXPECT_EQ(with(both).optim.kind, OptimizerKind::muon);
}

TEST(RecipeOverride, GaloreHasKeysByItsAuthorsNames) {
  const std::vector<std::string> texts = {
      "optim.name=galore",
      "optim.galore={rank=64, update_proj_gap=100, scale=0.5, proj_type=\"reverse_std\"}"};
  const GaloreOptions expected{64, 100, 0.5, GaloreProjection::reverse_std};
  EXPECT_EQ(with(texts).optim.galore, expected);
  EXPECT_EQ(parse_recipe(to_toml(with(texts)), "again", {}).optim.galore, expected);
  EXPECT_FALSE(overridden({"optim.name=galore"}).optim.galore) << "what is usual";
  EXPECT_THAT(refusal(sample, {"optim.galore={rank=64}"}),
              HasSubstr("[optim.galore] is not used by optim.name = \"adamw\"; set it to \"galore\""));
  EXPECT_THAT(refusal(sample, {"optim.name=galore", "optim.galore={rank=0}"}), HasSubstr("at least 1"));
  EXPECT_THAT(refusal(sample, {"optim.name=galore", "optim.galore={proj_type=\"both\"}"}),
              HasSubstr("reverse_std"));
  EXPECT_THAT(refusal(sample, {"optim.name=galore", "tensorized.enabled=false", "low_rank.rank=4"}),
              HasSubstr("those of [low_rank] are already small"));
  EXPECT_THAT(refusal(sample, {"optim.name=galor"}), HasSubstr("galore"));
}

TEST(RecipeOverride, AWarmUpReplacesTheOther) {
  const std::string text = edited("steps = 10", "steps = 10\nwarmup_share = 0.1");
  const auto with = [](const std::string& of, const std::string& set) {
    return parse_recipe(of, "test", {set}).phases[0];
  };
  EXPECT_EQ(with(text, "phase.0.warmup_steps=3").warmup_share, 0);
  EXPECT_EQ(with(text, "phase.0.warmup_share=0.5").warmup_share, 0.5);
  EXPECT_EQ(
      with(edited("steps = 10", "steps = 10\nwarmup_steps = 3"), "phase.0.warmup_share=0.5").warmup_steps, 0);
}

TEST(RecipeOverride, ErrorsNameTheOverride) {
  EXPECT_EQ(refusal(sample, {"model.layrs=2"}),
            "--set model.layrs=2: model.layrs is not a key of [model]; did you mean 'layers'?");
  EXPECT_EQ(refusal(sample, {"modle.layers=2"}),
            "--set modle.layers=2: modle is not a key of a recipe; did you mean 'model'?");
  EXPECT_EQ(refusal(sample, {"model.layers=two"}),
            "--set model.layers=two: model.layers is 'two'; expected an integer from 1 to 1024");
  EXPECT_EQ(refusal(sample, {"phase.0.warmup_steps=11"}),
            "--set phase.0.warmup_steps=11: phase.0.warmup_steps = 11 is more than phase.0.steps = 10; lower "
            "it, or give a share: --set phase.0.warmup_share=0.1");
  EXPECT_EQ(refusal(sample, {"phase.1.steps=1"}),
            "--set phase.1.steps=1: '1' is not an entry of phase; expected 0 to 0");
  EXPECT_THAT(refusal(sample, {"tensorized.attention.ranks=[1]"}), HasSubstr("4 modes need 3 ranks"));
  EXPECT_THAT(refusal(sample, {"phase.first.steps=1"}), HasSubstr("'first' is not an entry of phase"));
  EXPECT_THAT(refusal(sample, {"phase.0=1"}), HasSubstr("name a key of one of its entries"));
  for (const char* nonsense :
       {"", "=", "model", "model.layers", "model.=1", ".layers=1", "=1", "model..layers=1"})
    EXPECT_THAT(refusal(sample, {nonsense}), HasSubstr("expected section.key=value")) << nonsense;
  for (const char* value : {"", "[1", "\"open", "two words", "1\nhidden = 2", "{a = 1"})
    EXPECT_THAT(refusal(sample, {std::string("model.layers=") + value}), HasSubstr("is not a TOML value"))
        << value;
}

}  // namespace
}  // namespace comera::test
