#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "recipes/recipe.h"

namespace comera {

// The recipe of the model that a phase trains: with the number of blocks of that phase, and without the
// tensor trains of linear layers if the phase, or one before it, is `dense`. The embedding keeps its own.
// Blocks that a phase adds have the ranks of those that they copy (training/ranks/grown_model.h). Phases then
// say how many blocks they have, if one of them does.
Recipe recipe_in_phase(Recipe recipe, std::int64_t phase);

// The encoder blocks of a phase.
std::int64_t blocks_in_phase(const Recipe& recipe, std::int64_t phase);
// Whether blocks are added when this phase begins.
bool adds_blocks(const Recipe& recipe, std::int64_t phase);
// Whether linear layers become dense when this phase begins: it is the first such one, and not the run's
// first.
bool becomes_dense(const Recipe& recipe, std::int64_t phase);
// Whether either is so: the model has other parameters than that of the phase before.
bool grows(const Recipe& recipe, std::int64_t phase);

// UsageError if a new run's first phase has fewer blocks than the model, and [tensorized.ranks] has ranks for
// one that is added later.
void check_ranks_of_blocks(const Recipe& recipe);

// The block that a layer or parameter belongs to: 3 for "encoder.3.ffn.up". None for those outside blocks.
struct BlockOfLayer {
  std::size_t begin = 0, length = 0;  // of the number's digits
  std::int64_t number = 0;
  std::string renamed(std::string_view layer, std::int64_t other) const;
};
std::optional<BlockOfLayer> find_block(std::string_view layer);

}  // namespace comera
