#include "recipes/phase_recipe.h"

#include <algorithm>

namespace comera {

namespace {

bool is_dense(const Recipe& recipe, std::int64_t phase) {
  const auto end = recipe.phases.begin() + std::clamp<std::int64_t>(phase + 1, 0, std::ssize(recipe.phases));
  return std::any_of(recipe.phases.begin(), end, [](const PhaseSection& section) { return section.dense; });
}

}  // namespace

Recipe recipe_in_phase(Recipe recipe, std::int64_t phase) {
  if (!is_dense(recipe, phase)) return recipe;
  TensorizedSection& trains = recipe.tensorized;
  trains.attention.reset(), trains.ffn_up.reset(), trains.ffn_down.reset(), trains.head.reset();
  std::erase_if(trains.ranks,
                [](const auto& layer) { return layer.first != EncoderConfig::embedding_layer; });
  return recipe;
}

bool becomes_dense(const Recipe& recipe, std::int64_t phase) {
  const TensorizedSection& trains = recipe.tensorized;
  const bool any = trains.enabled && (trains.attention || trains.ffn_up || trains.ffn_down || trains.head);
  return any && phase > 0 && is_dense(recipe, phase) && !is_dense(recipe, phase - 1);
}

}  // namespace comera
