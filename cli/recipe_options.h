#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace CLI {
class App;
}

namespace comera::cli {

// The file that was given if there is one, else the recipe of that name ("quickstart", "quickstart.toml")
// among those that came with the program. UsageError for a name that none of them has.
std::filesystem::path find_recipe(const std::string& given);

// Of those that came with the program, in order.
std::vector<std::string> recipe_names();

// RECIPE and --set, as every command that works with a recipe has them.
struct RecipeOptions {
  std::string file;  // as it was given
  std::vector<std::string> overrides;

  std::filesystem::path path() const { return find_recipe(file); }
  Recipe load() const { return load_recipe(path(), overrides); }
  // The same of an encoder only.
  Recipe load_encoder() const;
};

// UsageError if the recipe is a click model's, which other commands work with.
void refuse_click_model(const Recipe& recipe, const std::filesystem::path& file);

void add_recipe_options(CLI::App& command, RecipeOptions& options);

// Whether one of the overrides, KEY=VALUE, is of this key or of one within it.
bool sets_key(const std::vector<std::string>& overrides, std::string_view key);
// UsageError if one is of these keys, since the command itself says what they are; why: the rest of the
// sentence.
void refuse_keys(const std::vector<std::string>& overrides, std::initializer_list<std::string_view> keys,
                 std::string_view why);

}  // namespace comera::cli
