#include "recipes/files/include.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

std::vector<std::string_view> alternatives_of(std::string_view key) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr Pair pairs[] = {{"steps", "epochs"},
                            {"validation", "held_out"},
                            {"warmup_steps", "warmup_share"},
                            {"target_size", "target_ratio"},
                            {"low_rank", "lte"}};
  std::vector<std::string_view> found;
  for (const auto& [one, other] : pairs) {
    if (key == one) found.push_back(other);
    if (key == other) found.push_back(one);
  }
  return found;
}

bool is_given(const toml::table& table, std::string_view key) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return false;
  const toml::array* list = node->as_array();
  return list != nullptr ? !list->empty() : !node->is_number() || node->value_or(0.0) != 0;
}

void complete_with(toml::table& own, toml::table&& included) {
  const auto is_replaced = [&](std::string_view key) {
    return std::ranges::any_of(alternatives_of(key), [&](auto other) { return is_given(own, other); });
  };
  for (auto&& [key, value] : included) {
    toml::node* mine = own.get(key);
    if (mine == nullptr && is_replaced(key)) continue;
    if (mine == nullptr)
      value.visit([&, name = key](auto& node) { own.insert(name, std::move(node)); });
    else if (mine->is_table() && value.is_table())
      complete_with(*mine->as_table(), std::move(*value.as_table()));
  }
}

}  // namespace comera::recipe_detail
