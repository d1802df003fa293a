#pragma once

#include <cstdint>

#include "recipes/recipe.h"

namespace comera {

// An encoder of tensor trains defined by three values, in the shapes with the best loss in equal time
// (docs/lab/learning.md): two modes on each side of a matrix, as equal as possible, and one rank in the
// middle.
struct ModelSize {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;  // a multiple of 64
  std::int64_t rank = 0;    // between the input's and the output's cores
  friend bool operator==(const ModelSize&, const ModelSize&) = default;
};

// Sets such a model in a recipe, with heads of 64, a feed-forward network of four times the width, and a TTM
// embedding for this vocabulary. All other keys are unchanged. Throws Error for a width that is not a
// multiple of 64, and for a rank that no matrix of the model can have.
void set_size(Recipe& recipe, const ModelSize& size, std::int64_t vocabulary);

}  // namespace comera
