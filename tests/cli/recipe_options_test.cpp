#include "cli/options/recipe_options.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>

#include "tests/support/temporary_folder.h"

namespace comera::cli {
namespace {

using testing::ElementsAre;

RecipeOptions parse(std::vector<std::string> arguments) {
  CLI::App command;
  RecipeOptions options;
  add_recipe_options(command, options);
  std::ranges::reverse(arguments);  // CLI11 takes them from the back
  command.parse(arguments);
  return options;
}

TEST(RecipeOptions, SetMayBeRepeated) {
  const RecipeOptions options =
      parse({"--set", "a.b=1", "recipe.toml", "--set=c.d=[8, 8]", "--set", "e.f={g = 1}"});
  EXPECT_EQ(options.file, "recipe.toml");
  EXPECT_THAT(options.overrides, ElementsAre("a.b=1", "c.d=[8, 8]", "e.f={g = 1}"));
}

TEST(RecipeOptions, ARecipeIsNeeded) {
  EXPECT_THROW(parse({"--set", "a.b=1"}), CLI::RequiredError);
  EXPECT_THROW(parse({"recipe.toml", "--set"}), CLI::ParseError);
}

TEST(RecipeOptions, ARecipeThatCameWithTheProgramIsFoundByItsName) {
  const std::filesystem::path delivered = COMERA_SOURCE_DIR "/recipes/quickstart.toml";
  for (const char* name : {"quickstart", "quickstart.toml"})
    EXPECT_TRUE(std::filesystem::equivalent(parse({name}).path(), delivered)) << name;
  EXPECT_EQ(parse({"./quickstart"}).path(), "./quickstart") << "a path is no name";
  EXPECT_THAT([] { parse({"nowhere/quickstart.toml"}).path(); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr(
                  "nowhere/quickstart.toml: no such file; the recipe quickstart came with the program")));
  EXPECT_THAT([] { parse({"quikstart"}).path(); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("did you mean 'quickstart'?")));
}

TEST(RecipeOptions, AFileOfThatNameComesFirst) {
  const test::TemporaryFolder folder;
  folder.write("quickstart", "[model]\n");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(parse({"quickstart"}).path(), "quickstart");
  std::filesystem::remove("quickstart");
  std::filesystem::create_directory("quickstart");
  EXPECT_EQ(parse({"quickstart"}).path().filename(), "quickstart.toml") << "a folder is no recipe";
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace comera::cli
