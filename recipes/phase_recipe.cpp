#include "recipes/phase_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kernels/core/check.h"

namespace comera {

namespace {

bool is_dense(const Recipe& recipe, std::int64_t phase) {
  const auto end = recipe.phases.begin() + std::clamp<std::int64_t>(phase + 1, 0, std::ssize(recipe.phases));
  return std::any_of(recipe.phases.begin(), end, [](const PhaseSection& section) { return section.dense; });
}

void remove_trains(TensorizedSection& trains) {
  trains.attention.reset(), trains.ffn_up.reset(), trains.ffn_down.reset(), trains.head.reset();
  std::erase_if(trains.ranks,
                [](const auto& layer) { return layer.first != EncoderConfig::embedding_layer; });
}

// From as many blocks as the model has to this number. The ranks of an added block are those of the one it
// copies; a recipe that had as many before keeps its own.
void add_blocks(Recipe& recipe, std::int64_t blocks) {
  LayerRanks added;
  for (const auto& [layer, ranks] : recipe.tensorized.ranks) {
    const auto block = find_block(layer);
    if (!block || block->number >= recipe.model.layers) continue;
    for (std::int64_t b = block->number + recipe.model.layers; b < blocks; b += recipe.model.layers)
      added[block->renamed(layer, b)] = ranks;
  }
  recipe.tensorized.ranks.merge(added);
  recipe.model.layers = blocks;
}

}  // namespace

std::optional<BlockOfLayer> find_block(std::string_view layer) {
  constexpr std::string_view name = "encoder.";
  BlockOfLayer block;
  const std::size_t at = layer.find(name);
  if (at == std::string_view::npos || (at > 0 && layer[at - 1] != '.')) return std::nullopt;
  block.begin = at + name.size();
  const char* const digits = layer.data() + block.begin;
  const auto [end, error] = std::from_chars(digits, layer.data() + layer.size(), block.number);
  if (error != std::errc() || end == layer.data() + layer.size() || *end != '.') return std::nullopt;
  block.length = static_cast<std::size_t>(end - digits);
  return block;
}

std::string BlockOfLayer::renamed(std::string_view layer, std::int64_t other) const {
  return fmt::format("{}{}{}", layer.substr(0, begin), other, layer.substr(begin + length));
}

std::int64_t blocks_in_phase(const Recipe& recipe, std::int64_t phase) {
  const bool exists = phase >= 0 && phase < std::ssize(recipe.phases);
  return exists ? recipe.phases[phase].layers.value_or(recipe.model.layers) : recipe.model.layers;
}

Recipe recipe_in_phase(Recipe recipe, std::int64_t phase) {
  if (std::ranges::any_of(recipe.phases,
                          [](const PhaseSection& section) { return section.layers.has_value(); })) {
    for (PhaseSection& section : recipe.phases) section.layers = section.layers.value_or(recipe.model.layers);
    add_blocks(recipe, blocks_in_phase(recipe, phase));
  }
  if (is_dense(recipe, phase)) remove_trains(recipe.tensorized);
  return recipe;
}

bool adds_blocks(const Recipe& recipe, std::int64_t phase) {
  return phase > 0 && blocks_in_phase(recipe, phase) > blocks_in_phase(recipe, phase - 1);
}

bool becomes_dense(const Recipe& recipe, std::int64_t phase) {
  const TensorizedSection& trains = recipe.tensorized;
  const bool any = trains.enabled && (trains.attention || trains.ffn_up || trains.ffn_down || trains.head);
  return any && phase > 0 && is_dense(recipe, phase) && !is_dense(recipe, phase - 1);
}

bool grows(const Recipe& recipe, std::int64_t phase) {
  return becomes_dense(recipe, phase) || adds_blocks(recipe, phase);
}

void check_ranks_of_blocks(const Recipe& recipe) {
  const std::int64_t first = blocks_in_phase(recipe, 0);
  for (const auto& [layer, ranks] : recipe.tensorized.ranks)
    if (const auto block = find_block(layer); block && block->number >= first)
      throw UsageError(fmt::format(
          "tensorized.ranks.{} is of a block that a later phase adds as a copy of block {}; remove "
          "it, or phase.0.layers",
          layer, block->number % first));
}

}  // namespace comera
