#include "cli/options/recipe_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "recipes/suggest.h"
#include "storage/folder.h"

namespace comera::cli {

namespace {

// PREFIX/share/comera/recipes of a program in PREFIX/bin, or recipes/ of the source that a program was built
// within. Empty if there is neither.
std::filesystem::path recipes_folder() {
  std::error_code code;
  std::filesystem::path place = std::filesystem::read_symlink("/proc/self/exe", code).parent_path();
  for (int level = 0; level < 5 && !code && place.has_relative_path(); ++level, place = place.parent_path())
    for (const char* folder : {"share/comera/recipes", "recipes"})
      if (std::filesystem::exists(place / folder / "quickstart.toml", code)) return place / folder;
  return {};
}

bool is_plain_name(const std::string& given) {
  return !given.empty() && given.find('/') == std::string::npos;
}

}  // namespace

std::vector<std::string> recipe_names() {
  std::error_code code;
  std::vector<std::string> names;
  for (const std::filesystem::path& file : storage::entries_of(recipes_folder(), code))
    if (file.extension() == ".toml") names.push_back(file.stem().string());
  std::ranges::sort(names);
  return names;
}

std::filesystem::path find_recipe(const std::string& given) {
  std::error_code code;
  const bool is_file = std::filesystem::exists(given, code) && !std::filesystem::is_directory(given, code);
  if (is_file || !is_plain_name(given)) return given;
  const std::filesystem::path folder = recipes_folder();
  const std::vector<std::string> names = recipe_names();
  const std::string name = std::filesystem::path(given).extension() == ".toml"
                               ? std::filesystem::path(given).stem().string()
                               : given;
  if (std::ranges::find(names, name) != names.end()) return folder / (name + ".toml");
  throw UsageError(fmt::format("{}: no such file, nor a recipe of that name{}", given,
                               names.empty() ? "" : suggestion(name, names)));
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

void add_recipe_options(CLI::App& command, RecipeOptions& options) {
  command.add_option("recipe", options.file, "A TOML file, or the name of a built-in recipe")
      ->required()
      ->type_name("RECIPE");
  // One value per option: the following word may be the command's next argument.
  command
      .add_option("--set", options.overrides,
                  "Set a key of the recipe, such as phase.0.steps=100; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
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
