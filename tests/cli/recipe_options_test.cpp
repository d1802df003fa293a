#include "cli/recipe_options.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>

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

}  // namespace
}  // namespace comera::cli
