#include "recipes/recipe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace comera {

std::string DataSource::name() const {
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

AdaptationSection adaptation_of(const PhaseSection& phase) {
  return with_preset(phase.adaptation.value_or(AdaptationSection{}), phase.objective);
}

std::optional<std::string> note_of_old_names(const Recipe& recipe) {
  const std::vector<std::string>& met = recipe.old_names.met;
  if (met.empty()) return std::nullopt;
  return fmt::format("names of earlier versions still work: {}", fmt::join(met, ", "));
}

}  // namespace comera
