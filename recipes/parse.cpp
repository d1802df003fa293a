#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "recipes/schema.h"
#include "recipes/validate.h"

namespace comera {

using namespace recipe_detail;

namespace {

Recipe read(const Source& source, Source::Origin origin) {
  Reader reader(source);
  Recipe recipe;
  read_table(recipe, source.root(), Path(), reader);
  validate(recipe, reader.places());
  if (origin == Source::Origin::user) validate_training(recipe, reader.places());
  return recipe;
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& name, const std::vector<std::string>& overrides,
                    const std::string& base) {
  return read(Source(text, name, overrides, base), Source::Origin::user);
}

Recipe parse_stored_recipe(std::string_view text, const std::string& name,
                           const std::vector<std::string>& overrides) {
  const auto origin = Source::Origin::checkpoint;
  return read(Source(text, name, overrides, "", origin), origin);
}

Recipe load_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                   const std::string& base) {
  std::error_code code;
  if (std::filesystem::is_directory(file, code))
    throw UsageError(fmt::format("{}: is a directory; expected a recipe, a TOML file", file.string()));
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    throw UsageError(fmt::format("{}: could not open the recipe: {}", file.string(), std::strerror(errno)));
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  return parse_recipe(text, file.string(), overrides, base);
}

}  // namespace comera
