#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace comera {

// A key whose values differ, as TOML; empty if a recipe does not have it.
struct RecipeChange {
  std::string key;  // "phase.0.steps", as in overrides
  std::string from, to;
  friend bool operator==(const RecipeChange&, const RecipeChange&) = default;
};

// In the order of docs/reference/recipes.md; keys that only `from` has come last.
std::vector<RecipeChange> recipe_changes(const Recipe& from, const Recipe& to);

// "phase.0.steps from 100 to 200", "optim.clip_norm from nothing to 1".
std::string to_string(const RecipeChange& change);

// The override that gives a key this text, or these, whatever characters they have.
std::string override_of(const std::string& key, const std::string& text);
std::string override_of(const std::string& key, const std::vector<std::string>& texts);

// Settings of model.score_mean and score_std as in a regression's model; none for another one.
std::vector<std::string> score_settings(const EncoderArchitecture& model);

}  // namespace comera
