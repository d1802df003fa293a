#pragma once

#include <span>
#include <string_view>

// Names that keys and values of recipes had in earlier versions. Recipes, overrides and checkpoints with
// these are read as if they had the names of now, so that what was written once can always be read: an entry
// is added here when something is renamed, and never removed.
namespace comera::recipe_detail {

struct OldKey {
  std::string_view
      section;  // the path of the key's table, without the numbers of lists: "phase.learning_rate"
  std::string_view old_name;
  std::string_view name;
};

struct OldValue {
  std::string_view key;  // its path: "phase.objective"
  std::string_view old_value;
  std::string_view value;
};

std::span<const OldKey> old_keys();
std::span<const OldValue> old_values();

// The key's name now, which may be the one given.
std::string_view name_now(std::string_view section, std::string_view name);

}  // namespace comera::recipe_detail
