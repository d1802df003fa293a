#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace CLI {
class App;
}

namespace comera::cli {

// RECIPE and --set, as every command that works with a recipe has them.
struct RecipeOptions {
  std::filesystem::path file;
  std::vector<std::string> overrides;

  Recipe load() const { return load_recipe(file, overrides); }
};

void add_recipe_options(CLI::App& command, RecipeOptions& options);

}  // namespace comera::cli
