#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace comera::cli {

// The given file if it exists, else the packaged recipe of that name ("quickstart", "quickstart.toml").
// UsageError for an unknown name.
std::filesystem::path find_recipe(const std::string& given);

// RECIPE and --set, shared by the commands that work with a recipe.
struct RecipeOptions {
  std::string file;  // as given
  std::vector<std::string> overrides;

  std::filesystem::path path() const { return find_recipe(file); }
  Recipe load() const { return load_recipe(path(), overrides); }
  // The same for encoders only.
  Recipe load_encoder() const;
};

// UsageError if the recipe is for a click model, which other commands handle.
void refuse_click_model(const Recipe& recipe, const std::filesystem::path& file);

// Returns RECIPE.
CLI::Option* add_recipe_options(CLI::App& command, RecipeOptions& options);

// Whether one of the overrides, KEY=VALUE, sets this key or one within it.
bool sets_key(const std::vector<std::string>& overrides, std::string_view key);
// UsageError if an override sets one of these keys, because the command itself sets them; why: the rest of
// the sentence.
void refuse_keys(const std::vector<std::string>& overrides, std::initializer_list<std::string_view> keys,
                 std::string_view why);

}  // namespace comera::cli
