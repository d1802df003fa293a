#include "cli/options/recipe_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "data/tables/table_corpus.h"
#include "recipes/files/packaged.h"
#include "recipes/suggest.h"

namespace comera::cli {

namespace {

bool is_plain_name(const std::string& given) {
  return !given.empty() && given.find('/') == std::string::npos;
}

}  // namespace

std::filesystem::path find_recipe(const std::string& given) {
  std::error_code code;
  const bool is_file = std::filesystem::exists(given, code) && !std::filesystem::is_directory(given, code);
  if (is_file && data::is_table_name(given))
    throw UsageError(fmt::format("{}: is a table where a recipe is expected; --input takes one file", given));
  if (is_file) return given;
  const std::filesystem::path path = given;
  const auto packaged = packaged_recipe(path.filename().string());
  if (is_plain_name(given)) {
    if (packaged) return *packaged;
    if (given.find('=') != std::string::npos)
      throw UsageError(fmt::format(
          "{0}: is a setting where a recipe is expected; give each key its own --set: --set {0}", given));
    const std::vector<std::string> names = packaged_recipes();
    throw UsageError(fmt::format("{}: no such file, nor a recipe of that name{}", given,
                                 names.empty() ? "" : suggestion(path.stem().string(), names)));
  }
  if (packaged && path.extension() == ".toml" && !std::filesystem::exists(given, code))
    throw UsageError(
        fmt::format("{0}: no such file; the recipe {1} came with the program: give its name, {1}", given,
                    path.stem().string()));
  return given;
}

void refuse_click_model(const Recipe& recipe, const std::filesystem::path& file) {
  if (recipe.dlrm)
    throw UsageError(fmt::format("{}: has [dlrm], so it is a click model's recipe; use comera clicks train",
                                 file.string()));
}

Recipe RecipeOptions::load_encoder() const {
  Recipe recipe = load();
  refuse_click_model(recipe, path());
  return recipe;
}

CLI::Option* add_recipe_options(CLI::App& command, RecipeOptions& options) {
  CLI::Option* recipe =
      command.add_option("recipe", options.file, "A TOML file, or the name of a built-in recipe")
          ->required()
          ->type_name("RECIPE");
  // One value per option: the following word may be the command's next argument.
  command
      .add_option("--set", options.overrides,
                  "Set a key of the recipe, such as phase.0.steps=100; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  return recipe;
}

bool sets_key(const std::vector<std::string>& overrides, std::string_view key) {
  return std::ranges::any_of(overrides, [&](std::string_view text) {
    const std::string_view name = text.substr(0, text.find_first_of(" ="));
    return name == key || (name.starts_with(key) && name[key.size()] == '.');
  });
}

void refuse_keys(const std::vector<std::string>& overrides, std::initializer_list<std::string_view> keys,
                 std::string_view why) {
  for (const std::string_view key : keys)
    if (sets_key(overrides, key)) throw UsageError(fmt::format("--set {}: {}", key, why));
}

}  // namespace comera::cli
