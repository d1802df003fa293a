#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// The recipes that came with the program: PREFIX/share/comera/recipes of a program in PREFIX/bin, or recipes/
// of the source that a program was built within.
namespace comera {

// Their names ("quickstart"), in order; empty where the folder is missing.
std::vector<std::string> packaged_recipes();

// The file of "quickstart" or "quickstart.toml", if it is one of them.
std::optional<std::filesystem::path> packaged_recipe(const std::string& name);

// The first sentence of the comment that the file begins with; empty without one.
std::string purpose_of_recipe(const std::filesystem::path& file);

}  // namespace comera
