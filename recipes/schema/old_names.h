#pragma once

#include <span>
#include <string_view>

// Recipe keys and values of earlier versions. Recipes, overrides and checkpoints with old names are read as
// if they had the current ones, so that old files can always be read. Add an entry here when something is
// renamed; never remove one.
namespace comera::recipe_detail {

struct OldKey {
  std::string_view section;  // the path of the key's table, without list indices: "phase.learning_rate"
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

// The key's current name, which may be the given one.
std::string_view name_now(std::string_view section, std::string_view name);

}  // namespace comera::recipe_detail
