#include "recipes/adaptation.h"

#include <gmock/gmock.h>

#include "tests/recipes/sample.h"

namespace comera::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Adaptation, PresetsDifferWhereTheTableSaysSo) {
  const ResolvedAdaptation ours = resolve({}, PhaseObjective::compress);
  EXPECT_EQ(ours.stage.objective.stage, RankStage::compress);
  EXPECT_EQ(ours.stage.objective.loss_target, 0);
  EXPECT_TRUE(ours.stage.objective.hold && ours.stage.objective.smallest_first);
  EXPECT_EQ(ours.urgency, 30);
  EXPECT_EQ(ours.shrink_share, 0.5);
  const ResolvedAdaptation paper =
      resolve({.preset = RankPreset::paper, .target_loss = 0.7}, PhaseObjective::compress);
  EXPECT_EQ(paper.stage.objective.loss_target, 0.7);
  EXPECT_TRUE(paper.stage.objective.weighted_branches);
  EXPECT_EQ(paper.stage.objective.smoothing, 0);
  EXPECT_FALSE(paper.stage.objective.hold || paper.stage.objective.smallest_first ||
               paper.stage.objective.relative_size);
  EXPECT_EQ(paper.shrink_share, 0);
  const ResolvedAdaptation code = resolve({.preset = RankPreset::reference}, PhaseObjective::compress);
  EXPECT_EQ(code.stage.objective.loss_target, 0.8);
  EXPECT_EQ(code.stage.objective.penalty, RankPenalty::mean_gate);
  EXPECT_EQ(code.stage.objective.beta, 0);
  EXPECT_EQ(code.stage.objective.smoothing, 0);
  EXPECT_FALSE(code.stage.objective.hold || code.stage.objective.weighted_branches ||
               ours.stage.objective.weighted_branches);
}

TEST(Adaptation, WhatIsGivenGoesBeforeThePreset) {
  const AdaptationSection section{.preset = RankPreset::reference,
                                  .target_loss = 0.3,
                                  .penalty = RankPenalty::l1_size,
                                  .beta = 0.5,
                                  .threshold = 0.2,
                                  .hold = true,
                                  .urgency = 4,
                                  .shrink_share = 0.25};
  const ResolvedAdaptation resolved = resolve(section, PhaseObjective::compress);
  EXPECT_EQ(resolved.stage.objective.loss_target, 0.3);
  EXPECT_EQ(resolved.stage.objective.penalty, RankPenalty::l1_size);
  EXPECT_EQ(resolved.stage.objective.beta, 0.5);
  EXPECT_EQ(resolved.stage.threshold, 0.2);
  EXPECT_TRUE(resolved.stage.objective.hold);
  EXPECT_EQ(resolved.urgency, 4);
  EXPECT_EQ(resolved.shrink_share, 0.25);
}

TEST(Adaptation, TheNormsWeightFollowsGammaInAnEarlyStage) {
  EXPECT_EQ(resolve({.gamma = 0.2}, PhaseObjective::regularize).stage.objective.beta, 0.2);
  EXPECT_EQ(resolve({.gamma = 0.2, .beta = 0.3}, PhaseObjective::regularize).stage.objective.beta, 0.3);
  EXPECT_EQ(resolve({.preset = RankPreset::reference, .gamma = 0.2}, PhaseObjective::regularize)
                .stage.objective.beta,
            0);
}

TEST(Adaptation, Sizes) {
  EXPECT_EQ(parse_size("3.2MB"), 3.2e6);
  EXPECT_EQ(parse_size("900 kB"), 9e5);
  EXPECT_EQ(parse_size("2MiB"), 2097152);
  EXPECT_EQ(parse_size("1485795"), 1485795);
  for (const char* wrong : {"", "MB", "3.2 Mb", "-1MB", "0", "inf", "nan", "3MB ", "3  MB", "1e400"})
    EXPECT_FALSE(parse_size(wrong)) << wrong;
}

const std::string late =
    sample + "objective = \"compress\"\n[phase.adaptation]\ntarget_ratio = 0.5\nbeta = 0.25\n";

TEST(Adaptation, IsReadAndWrittenAgain) {
  const Recipe recipe = parse_recipe(late, "r.toml");
  EXPECT_EQ(recipe.phases[0].objective, PhaseObjective::compress);
  ASSERT_TRUE(recipe.phases[0].adaptation);
  EXPECT_EQ(recipe.phases[0].adaptation->target_ratio, 0.5);
  EXPECT_EQ(parse_recipe(to_toml(recipe), "again.toml"), recipe);
  EXPECT_EQ(parse_recipe(sample, "r.toml").phases[0].objective, PhaseObjective::fixed);
}

// What the preset says stands beside what is given, as a comment: read again, it is still the preset's.
TEST(Adaptation, AResolvedRecipeSaysThePresetsConstants) {
  const std::string text = to_toml(parse_recipe(late, "r.toml"));
  for (const char* line : {"\nbeta = 0.25\n", "\n# threshold = 0.01\n", "\n# urgency = 30.0\n",
                           "\n# hold = true\n", "\n# rho_loss = 0.1\n", "\n# penalty = \"l1_size\"\n"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, Not(HasSubstr("gamma")));
  const Recipe bare = parse_recipe(sample + "objective = \"regularize\"\n", "r.toml");
  EXPECT_THAT(to_toml(bare), AllOf(HasSubstr("\n# [phase.adaptation]\n"), HasSubstr("\n# gamma = 0.01\n")));
  EXPECT_EQ(parse_recipe(to_toml(bare), "again.toml"), bare);
}

// A checkpoint's recipe cannot be mended: what its phases never look at is left out.
TEST(Adaptation, AStoredRecipeLosesWhatIsIdle) {
  const Recipe stored = parse_stored_recipe(late + "gamma = 1\n", "c.h5");
  EXPECT_FALSE(stored.phases[0].adaptation->gamma);
  EXPECT_EQ(stored.phases[0].adaptation->beta, 0.25);
  const std::string early = sample + "objective = \"regularize\"\n[phase.adaptation]\n";
  const Recipe with_target =
      parse_stored_recipe(early + "target_of = \"phase_start\"\ntarget_size = \"\"\nhold = true\n", "c.h5");
  EXPECT_FALSE(with_target.phases[0].adaptation->target_of || with_target.phases[0].adaptation->hold);
  EXPECT_FALSE(parse_stored_recipe(sample + "[phase.adaptation]\ngamma = 1\n", "c.h5").phases[0].adaptation);
  EXPECT_THROW(parse_stored_recipe(late, "c.h5", {"phase.0.adaptation.gamma=1"}), UsageError)
      << "what the user says now is judged";
}

TEST(Adaptation, OverridesReplaceWhatContradictsThemInTheFile) {
  const auto with = [](const std::vector<std::string>& overrides) {
    return parse_recipe(late, "r.toml", overrides);
  };
  EXPECT_FALSE(with({"phase.0.objective=fixed"}).phases[0].adaptation);
  const Recipe early = with({"phase.0.objective=regularize"});
  EXPECT_FALSE(early.phases[0].adaptation->target_ratio);
  EXPECT_EQ(early.phases[0].adaptation->beta, 0.25);
  const std::string weighing = sample + "objective = \"regularize\"\n[phase.adaptation]\ngamma = 0.25\n";
  const Recipe shrinking =
      parse_recipe(weighing, "r.toml", {"phase.0.objective=compress", "phase.0.adaptation.target_ratio=0.5"});
  EXPECT_FALSE(shrinking.phases[0].adaptation->gamma);
  const Recipe size = with({"phase.0.adaptation.target_size=3kB"});
  EXPECT_FALSE(size.phases[0].adaptation->target_ratio);
  EXPECT_EQ(size.phases[0].adaptation->target_size, "3kB");
  const std::string more = late + "target_of = \"dense\"\nurgency = 20\n";
  EXPECT_FALSE(
      parse_recipe(more, "r.toml", {"phase.0.adaptation.target_size=3kB"}).phases[0].adaptation->target_of);
  for (const char* at_once : {"phase.0.adaptation.shrink_share=0", "phase.0.adaptation.preset=reference"})
    EXPECT_FALSE(parse_recipe(more, "r.toml", {at_once}).phases[0].adaptation->urgency) << at_once;
  // Not what overrides say themselves.
  EXPECT_THAT(refusal(late, {"phase.0.adaptation.gamma=1", "phase.0.objective=fixed"}),
              HasSubstr("is for a phase that adapts ranks"));
  EXPECT_THAT(refusal(late, {"phase.0.adaptation.target_ratio=0.1", "phase.0.objective=regularize"}),
              HasSubstr("is only for phases with objective = \"compress\""));
}

TEST(Adaptation, MistakesAreNamedWithTheirPlace) {
  EXPECT_THAT(refusal(sample + "objective = \"compress\"\n"),
              HasSubstr("neither target_ratio nor target_size"));
  EXPECT_THAT(refusal(sample + "objective = \"later\"\n"), HasSubstr("'fixed', 'regularize' or 'compress'"));
  EXPECT_THAT(refusal(late, {"phase.0.adaptation.target_ratio=1.5"}),
              HasSubstr("greater than 0 and at most 1"));
  EXPECT_THAT(refusal(late + "target_size = \"3 parsecs\"\n"), HasSubstr("exactly one"));
  EXPECT_THAT(refusal(late, {"phase.0.adaptation.target_size=\"3 parsecs\""}),
              HasSubstr("\"3 parsecs\" is not a size"));
  EXPECT_THAT(refusal(late, {"phase.0.adaptation.thresold=0.1"}), HasSubstr("did you mean 'threshold'"));
  EXPECT_THAT(refusal(late, {"phase.0.adaptation.preset=paper"}), HasSubstr("needs a target_loss"));
  // What would do nothing.
  EXPECT_THAT(refusal(late + "gamma = 1\n"),
              HasSubstr("phase.0.adaptation.gamma is only for phases with objective = \"regularize\""));
  const std::string early = sample + "objective = \"regularize\"\n[phase.adaptation]\n";
  for (const char* key :
       {"target_ratio = 0.5", "target_size = \"3MB\"", "target_of = \"dense\"", "target_loss = 1",
        "rho_loss = 1", "rho_size = 1", "loss_weight = 1", "size_weight = 1", "hold = true",
        "relative_size = true", "smallest_first = true", "urgency = 2", "shrink_share = 0.1"})
    EXPECT_THAT(refusal(early + key + "\n"), HasSubstr("is only for phases with objective = \"compress\""))
        << key;
  EXPECT_THAT(refusal(late + "loss_weight = 1\n"), HasSubstr("set target_loss too"));
  EXPECT_THAT(refusal(late + "shrink_share = 0\nurgency = 2\n"), HasSubstr("which is 0"));
  EXPECT_THAT(refusal(late, {"phase.0.adaptation.target_size=3MB", "phase.0.adaptation.target_of=dense"}),
              HasSubstr("remove it when target_size is given"));
  EXPECT_THAT(refusal(late + "preset = \"reference\"\nshrink_share = 0.5\n"),
              HasSubstr("has no effect without"));
}

}  // namespace
}  // namespace comera::test
