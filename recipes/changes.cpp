#include "recipes/changes.h"

#include <fmt/format.h>

#include <map>

#include "recipes/schema/schema.h"

namespace comera {

using namespace recipe_detail;

namespace {

std::vector<std::pair<std::string, std::string>> values_of(const Recipe& recipe) {
  Writer writer;
  for (const auto& key : keys_of<Recipe>()) key.write(recipe, Path() / key.name, writer);
  return writer.values();
}

}  // namespace

std::vector<RecipeChange> recipe_changes(const Recipe& from, const Recipe& to) {
  const auto before = values_of(from), after = values_of(to);
  const std::map<std::string, std::string> had(before.begin(), before.end()), has(after.begin(), after.end());
  std::vector<RecipeChange> changes;
  for (const auto& [key, value] : after) {
    const auto old = had.find(key);
    if (old == had.end())
      changes.push_back({key, "", value});
    else if (old->second != value)
      changes.push_back({key, old->second, value});
  }
  for (const auto& [key, value] : before)
    if (!has.contains(key)) changes.push_back({key, value, ""});
  return changes;
}

std::string to_string(const RecipeChange& change) {
  const auto shown = [](const std::string& value) { return value.empty() ? "nothing" : value.c_str(); };
  return fmt::format("{} from {} to {}", change.key, shown(change.from), shown(change.to));
}

std::string override_of(const std::string& key, const std::string& text) {
  return key + "=" + Codec<std::string>::write(text);
}

std::string override_of(const std::string& key, const std::vector<std::string>& texts) {
  return key + "=" + Codec<std::vector<std::string>>::write(texts);
}

std::vector<std::string> score_settings(const EncoderArchitecture& model) {
  if (model.head != HeadKind::regression) return {};
  return {fmt::format("model.score_mean={}", model.score_mean.value_or(0)),
          fmt::format("model.score_std={}", model.score_std.value_or(1))};
}

}  // namespace comera
