#include "recipes/files/packaged.h"

#include <algorithm>
#include <sstream>

#include "storage/folder.h"
#include "storage/small_file.h"

namespace comera {

namespace {

std::filesystem::path packaged_folder() {
  std::error_code code;
  std::filesystem::path place = std::filesystem::read_symlink("/proc/self/exe", code).parent_path();
  for (int level = 0; level < 5 && !code && place.has_relative_path(); ++level, place = place.parent_path())
    for (const char* folder : {"share/comera/recipes", "recipes"})
      if (std::filesystem::exists(place / folder / "quickstart.toml", code)) return place / folder;
  return {};
}

}  // namespace

std::vector<std::string> packaged_recipes() {
  std::error_code code;
  std::vector<std::string> names;
  for (const std::filesystem::path& file : storage::entries_of(packaged_folder(), code))
    if (file.extension() == ".toml") names.push_back(file.stem().string());
  std::ranges::sort(names);
  return names;
}

std::optional<std::filesystem::path> packaged_recipe(const std::string& name) {
  const std::string stem = name.ends_with(".toml") ? name.substr(0, name.size() - 5) : name;
  if (std::ranges::count(packaged_recipes(), stem) == 0) return std::nullopt;
  return packaged_folder() / (stem + ".toml");
}

std::string purpose_of_recipe(const std::filesystem::path& file) {
  std::istringstream lines(storage::read_small_file(file, std::int64_t{4} << 20, "a recipe, a TOML file"));
  std::string text;
  for (std::string line; std::getline(lines, line) && line.starts_with("#") && line != "#";) {
    text += (text.empty() ? "" : " ") + line.substr(std::min<std::size_t>(2, line.size()));
    // A point within a name, as in "README.md", ends no sentence.
    if (const std::size_t end = (text + " ").find(". "); end != std::string::npos) return text.substr(0, end);
  }
  if (text.ends_with(':')) text.pop_back();
  return text;
}

}  // namespace comera
