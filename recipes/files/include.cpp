#include "recipes/files/include.h"

#include <fmt/format.h>

#include "kernels/core/check.h"
#include "recipes/files/packaged.h"
#include "recipes/suggest.h"

namespace comera::recipe_detail {

std::filesystem::path included_file(const std::string& given, const std::string& file,
                                    const std::string& place) {
  std::error_code code;
  std::filesystem::path beside = std::filesystem::path(file).parent_path() / given;
  if (std::filesystem::exists(beside, code) && !std::filesystem::is_directory(beside, code)) return beside;
  if (const auto packaged = packaged_recipe(given); packaged && given.find('/') == std::string::npos)
    return *packaged;
  const std::vector<std::string> names = packaged_recipes();
  throw UsageError(
      fmt::format("{}: include = \"{}\": there is no file {}, nor a built-in recipe of that name{}", place,
                  given, beside.string(), names.empty() ? "" : suggestion(given, names)));
}

void complete_with(toml::table& own, toml::table&& included) {
  for (auto&& [key, value] : included) {
    toml::node* mine = own.get(key);
    if (mine == nullptr)
      value.visit([&, name = key](auto& node) { own.insert(name, std::move(node)); });
    else if (mine->is_table() && value.is_table())
      complete_with(*mine->as_table(), std::move(*value.as_table()));
  }
}

}  // namespace comera::recipe_detail
