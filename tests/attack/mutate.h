#pragma once

#include <string>

#include "tests/attack/chance.h"

// Slightly changed texts and bytes.
namespace comera::attack {

// One to eight bytes changed, a part zeroed, doubled or moved, truncated or extended; never the same.
std::string mutated_bytes(Chance& chance, const std::string& bytes);
// Lines left out, doubled or moved, bytes changed, fields and quotes added, huge and deep ones among them.
std::string mutated_text(Chance& chance, const std::string& text);
// The same for TOML, with other numbers, types and values, deep nesting, huge texts.
std::string mutated_toml(Chance& chance, const std::string& text);

// Of JSON: a value of another type or size, a member left out, doubled or with another name; text if it is
// none.
std::string mutated_json(Chance& chance, const std::string& text);

}  // namespace comera::attack
