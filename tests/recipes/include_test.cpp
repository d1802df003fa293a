// Recipes that begin with another one: include = "quickstart", or a path.
#include <gmock/gmock.h>

#include <filesystem>

#include "recipes/files/packaged.h"
#include "recipes/recipe.h"
#include "tests/recipes/sample.h"
#include "tests/support/temporary_folder.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

class RecipeInclude : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  std::string refusal(const std::filesystem::path& file,
                      const std::vector<std::string>& overrides = {}) const {
    return error_of([&] { load_recipe(file, overrides); });
  }

  TemporaryFolder folder_;
};

TEST_F(RecipeInclude, KeysCompleteThoseOfTheOtherRecipe) {
  write("base/base.toml", std::string(sample));
  const Recipe base = load_recipe(folder_ / "base/base.toml", {});
  const Recipe recipe = load_recipe(
      write("mine.toml", "include = \"base/base.toml\"\n[model]\nlayers = 3\n[run]\nseed = 7\n"), {});
  EXPECT_EQ(recipe.model.layers, 3);
  EXPECT_EQ(recipe.model.hidden, base.model.hidden);
  EXPECT_EQ(recipe.run.seed, 7);
  EXPECT_EQ(recipe.phases, base.phases);
  EXPECT_EQ(recipe.tensorized.attention, base.tensorized.attention);
  // Overrides come last.
  EXPECT_EQ(load_recipe(folder_ / "mine.toml", {"model.layers=1"}).model.layers, 1);
  // What a run writes down is whole.
  EXPECT_THAT(to_toml(recipe), testing::Not(HasSubstr("include")));
  EXPECT_EQ(parse_recipe(to_toml(recipe), "r.toml"), recipe);
}

TEST_F(RecipeInclude, PhasesAreReplacedAsAWhole) {
  write("base.toml", std::string(sample) +
                         "\n[[phase]]\nname = \"more\"\nlength = 16\nsteps = 5\n"
                         "tokens_per_micro_batch = 64\nlearning_rate = 1e-3\n");
  ASSERT_GT(load_recipe(folder_ / "base.toml", {}).phases.size(), 1U);
  const Recipe recipe =
      load_recipe(write("mine.toml",
                        "include = \"base.toml\"\n[[phase]]\nname = \"only\"\nlength = 16\nsteps = 9\n"
                        "tokens_per_micro_batch = 64\nlearning_rate = 1e-3\n"),
                  {});
  ASSERT_EQ(recipe.phases.size(), 1U);
  EXPECT_EQ(recipe.phases[0].name, "only");
}

// What stands in the including recipe replaces the other way to say it.
TEST_F(RecipeInclude, AlternativesOfTheIncludedAreLeftOut) {
  write("files.toml", std::string(sample) + "[task]\nname = \"x\"\nvalidation = [\"dev.tsv\"]\n");
  const Recipe share =
      load_recipe(write("share.toml", "include = \"files.toml\"\n[task]\nheld_out = 0.2\n"), {});
  EXPECT_EQ(share.task.held_out, 0.2);
  EXPECT_TRUE(share.task.validation.empty());
  const Recipe files =
      load_recipe(write("again.toml", "include = \"share.toml\"\n[task]\nvalidation = [\"b.tsv\"]\n"), {});
  EXPECT_EQ(files.task.held_out, 0);
  EXPECT_EQ(files.task.validation, std::vector<std::string>{"b.tsv"});
  const Recipe none = load_recipe(write("none.toml", "include = \"files.toml\"\n[task]\nheld_out = 0\n"), {});
  EXPECT_EQ(none.task.validation, std::vector<std::string>{"dev.tsv"}) << "nothing is held out";
}

TEST_F(RecipeInclude, BuiltInRecipesByTheirName) {
  const Recipe recipe =
      load_recipe(write("mine.toml", "include = \"quickstart\"\n[model]\nlayers = 2\n"), {});
  EXPECT_EQ(recipe.model.layers, 2);
  EXPECT_EQ(recipe.model.hidden, load_recipe(*packaged_recipe("quickstart"), {}).model.hidden);
}

TEST_F(RecipeInclude, IncludesMayFollowEachOther) {
  write("a.toml", "include = \"quickstart\"\n[model]\nlayers = 2\nheads = 2\n");
  write("b.toml", "include = \"a.toml\"\n[model]\nlayers = 3\n");
  const Recipe recipe = load_recipe(folder_ / "b.toml", {});
  EXPECT_EQ(recipe.model.layers, 3);
  EXPECT_EQ(recipe.model.heads, 2);
}

TEST_F(RecipeInclude, CirclesAreRefused) {
  write("a.toml", "include = \"b.toml\"\n");
  write("b.toml", "include = \"a.toml\"\n");
  EXPECT_THAT(refusal(folder_ / "a.toml"), HasSubstr("leads back to"));
  write("self.toml", "include = \"self.toml\"\n");
  EXPECT_THAT(refusal(folder_ / "self.toml"),
              HasSubstr("self.toml:1:11: include = \"self.toml\": leads back"));
}

TEST_F(RecipeInclude, MessagesNameTheFileThatIsWrong) {
  std::string wrong(sample);
  wrong.replace(wrong.find("layers = 2"), 10, "layers = 'x'");
  const std::string base = write("base.toml", wrong).string();
  const std::string mine = write("mine.toml", "include = \"base.toml\"\n[run]\nseed = 'y'\n").string();
  EXPECT_THAT(refusal(mine), testing::StartsWith(base + ":2:10: model.layers"));
  EXPECT_THAT(refusal(mine, {"model.layers=1"}), testing::StartsWith(mine + ":3:8: run.seed"));
  write("list.toml", "include = [\"base.toml\"]\n");
  EXPECT_THAT(refusal(folder_ / "list.toml"), HasSubstr("list.toml:1:11: include = a list: give one name"));
  write("missing.toml", "include = \"quikstart\"\n");
  EXPECT_THAT(refusal(folder_ / "missing.toml"), HasSubstr("did you mean 'quickstart'?"));
}

TEST(PackagedRecipes, AreListedWithTheirPurpose) {
  EXPECT_THAT(packaged_recipes(), testing::Contains("quickstart"));
  EXPECT_FALSE(packaged_recipe("quikstart"));
  for (const std::string& name : packaged_recipes()) {
    const std::string purpose = purpose_of_recipe(*packaged_recipe(name));
    EXPECT_GT(purpose.size(), 20U) << name;
    EXPECT_NE(purpose.back(), ':') << name;
  }
}

TEST(UsualKeys, WordsOfOtherProgramsLeadToOurs) {
  const auto refused = [](const std::string& assignment) {
    return error_of([&] { parse_recipe(sample, "r.toml", {assignment}); });
  };
  EXPECT_THAT(refused("optim.lr=1e-3"), HasSubstr("did you mean phase.0.learning_rate?"));
  EXPECT_THAT(refused("phase.0.lr=1e-3"), HasSubstr("did you mean 'learning_rate'?"));
  EXPECT_THAT(refused("phase.0.batch_size=32"), HasSubstr("did you mean 'tokens_per_micro_batch'?"));
  EXPECT_THAT(refused("model.num_hidden_layers=3"), HasSubstr("did you mean 'layers'?"));
  EXPECT_THAT(refused("model.layrs=3"), HasSubstr("did you mean 'layers'?"));
}

}  // namespace
}  // namespace comera::test
