#include <gmock/gmock.h>
#include "tests/cli/outcome.h"
#include "tests/recipes/ranked_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace comera::cli {
namespace {

using test::read_text;
using test::TemporaryFolder;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

class Inspect : public testing::Test {
 protected:
  Inspect() {
    std::filesystem::create_directories(folder_ / "run/checkpoints");
    test::write_ranked(checkpoint(), {.overrides = {}, .dead = test::some_dead()});
    std::ofstream(folder_ / "run/checkpoints/latest") << "step-00000012.h5\n";
    test::write_ranked(folder_ / "other.h5", {.overrides = {}, .step = 30});
    folder_.write("r.toml", test::ranked_recipe());
    folder_.write("run/metrics.jsonl", "{\"step\":1,\"phase\":\"a\",\"loss\":2}\n");
  }

  std::string checkpoint() const { return folder_ / "run/checkpoints/step-00000012.h5"; }
  std::string at(const char* name) const { return folder_ / name; }

  static Outcome inspect(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "inspect");
    return run(arguments);
  }

  // Wrong usage, answered in one line.
  static std::string refusal(const std::vector<std::string>& arguments) {
    const Outcome outcome = inspect(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("comera: error: "));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  }

  TemporaryFolder folder_;
};

TEST_F(Inspect, ShowsARecipeAndACheckpointAsBefore) {
  for (const std::string& subject : {at("r.toml"), checkpoint(), at("run")}) {
    const Outcome outcome = inspect({subject});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, ContainsRegex("tensor-train cores +18,484\n")) << subject;
  }
  EXPECT_THAT(inspect({"--set", "tensorized.enabled=false", "--set", "model.layers=3", at("r.toml")}).out,
              ContainsRegex("encoder.2.attention.query +dense"));
}

TEST_F(Inspect, ShowsWhatFusedOperationsAGpuDoesNotUse) {
  for (const std::string& subject : {at("r.toml"), checkpoint()})
    EXPECT_THAT(
        inspect({subject}).out,
        HasSubstr("\nfused operations that a GPU does not use (phase first)\n"
                  "  feed-forward network in one pass, layers 0 to 1: not all layers are tensor trains\n"))
        << subject;
}

TEST_F(Inspect, ShowsTheRanksOfACheckpointAndOfARun) {
  for (const std::string& subject : {checkpoint(), at("run")}) {
    const Outcome outcome = inspect({subject, "--ranks"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("step-00000012.h5: step 12\n"));
    EXPECT_THAT(outcome.out, ContainsRegex("\n  attention.query +8,16,8 +5,10,8 "));
    EXPECT_THAT(outcome.out, HasSubstr("18,484 -> 15,276"));
    EXPECT_THAT(outcome.out, ContainsRegex("removed layers +1 of 9: encoder.1.attention.key\n"));
  }
}

TEST_F(Inspect, ShowsTwoCheckpointsSideBySide) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{{}, {"--ranks"}}) {
    std::vector<std::string> arguments{at("run"), at("other.h5")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = inspect(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, ContainsRegex("A: [^\n]*step-00000012.h5, step 12\nB: [^\n]*other.h5, step 30"));
    EXPECT_THAT(outcome.out, ContainsRegex("tensorized layers \\(S\\) +15,276 +18,484 +1.210\n"));
  }
}

TEST_F(Inspect, DrawsARun) {
  const Outcome outcome = inspect({at("run"), "--plot", at("p.svg")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "saved " + at("p.svg") + "\n");
  EXPECT_THAT(read_text(at("p.svg")), StartsWith("<?xml"));
  EXPECT_THAT(read_text(at("p.svg")), testing::EndsWith("</svg>\n"));
  EXPECT_TRUE(test::left_overs(folder_.path()).empty());
}

TEST_F(Inspect, WhatDoesNotGoTogetherIsRefused) {
  const std::string a = checkpoint(), b = at("other.h5"), recipe = at("r.toml");
  EXPECT_THAT(refusal({recipe, "--ranks"}), HasSubstr("r.toml is a recipe, but only checkpoints have ranks"));
  EXPECT_THAT(refusal({a, recipe}), HasSubstr("r.toml is a recipe, but only checkpoints have ranks"));
  EXPECT_THAT(refusal({a, b, "--explain-linears", "64"}),
              HasSubstr("--explain-linears does not go with two checkpoints"));
  EXPECT_THAT(refusal({a, b, "--set", "run.seed=1"}), HasSubstr("--set does not go with two checkpoints"));
  EXPECT_THAT(refusal({a, b, "--vocabulary", "9"}), HasSubstr("--vocabulary does not go with two"));
  EXPECT_THAT(refusal({a, "--ranks", "--explain-linears", "64"}),
              HasSubstr("--explain-linears does not go with --ranks"));
  EXPECT_THAT(refusal({a, "--ranks", "--set", "run.seed=1"}), HasSubstr("--set does not go with --ranks"));
  EXPECT_THAT(refusal({at("run"), "--plot", at("p.svg"), "--ranks"}), HasSubstr("--ranks does not go with"));
  EXPECT_THAT(refusal({at("run"), "--plot", at("p.svg"), "--plan"}), HasSubstr("--plan does not go with"));
  EXPECT_THAT(refusal({at("run"), at("run"), "--plot", at("p.svg")}), HasSubstr("--plot draws one run"));
  EXPECT_THAT(refusal({a, b, a}), HasSubstr("--help"));
  EXPECT_THAT(refusal({}), HasSubstr("the argument SUBJECT is missing"));
}

TEST_F(Inspect, LayersThatACheckpointLacksAreNotShown) {
  const Outcome outcome = inspect({checkpoint(), "--set", "model.layers=3"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("is a checkpoint of another model: it has no encoder."));
  EXPECT_EQ(inspect({checkpoint(), "--set", "precision.compute=bf16", "--explain-precision", "64"}).code, 0);
}

TEST_F(Inspect, OnlyARunsFolderIsDrawnAndOnlyAsSvg) {
  for (const char* name : {"p.png", "p", "p.svg.txt", ".svg"})
    EXPECT_THAT(refusal({at("run"), "--plot", at(name)}), HasSubstr("--plot writes SVG")) << name;
  EXPECT_THAT(refusal({checkpoint(), "--plot", at("p.svg")}), HasSubstr("is not a folder"));
  EXPECT_THAT(refusal({at("run/checkpoints"), "--plot", at("p.svg")}), HasSubstr("there is no such file"));
  EXPECT_FALSE(std::filesystem::exists(at("p.svg")));
}

TEST_F(Inspect, FailuresAreOneSentence) {
  const Outcome missing = inspect({at("none.h5"), "--ranks"});
  EXPECT_NE(missing.code, 0);
  EXPECT_THAT(missing.err, HasSubstr("none.h5"));
  const Outcome unwritable = inspect({at("run"), "--plot", at("nowhere/p.svg")});
  EXPECT_EQ(unwritable.code, 1);
  EXPECT_THAT(unwritable.err, HasSubstr("nowhere"));
  EXPECT_THAT(refusal({folder_.path(), "--ranks"}), HasSubstr("is a folder without checkpoints"));
}

}  // namespace
}  // namespace comera::cli
