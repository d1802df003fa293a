#pragma once

#include <cstdint>

#include "recipes/recipe.h"

namespace comera {

// An encoder of tensor trains by three numbers, in the shapes that learnt most in the same time
// (docs/lab/learning.md): two modes on each side of a matrix, as equal as possible, and one rank in the
// middle.
struct ModelSize {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;  // a multiple of 64
  std::int64_t rank = 0;    // between the input's and the output's cores
  friend bool operator==(const ModelSize&, const ModelSize&) = default;
};

// Gives a recipe such a model, with heads of 64, a feed-forward network of four times the width, and a TTM
// embedding for so many tokens. What else the recipe says stays. Throws Error for a width that is no multiple
// of 64, and for a rank that no matrix of the model can have.
void set_size(Recipe& recipe, const ModelSize& size, std::int64_t vocabulary);

}  // namespace comera
