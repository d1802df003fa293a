#include "cli/recipe_options.h"

#include <CLI/CLI.hpp>

namespace comera::cli {

void add_recipe_options(CLI::App& command, RecipeOptions& options) {
  command.add_option("recipe", options.file, "The recipe, a TOML file")->required()->type_name("RECIPE");
  // One value each: what follows may be the next argument of the command.
  command
      .add_option("--set", options.overrides,
                  "Overrides a key of the recipe, such as phase.0.steps=100; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
}

}  // namespace comera::cli
