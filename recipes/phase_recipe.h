#pragma once

#include "recipes/recipe.h"

namespace comera {

// The recipe of the model that a phase trains: without the tensor trains of linear layers if the phase, or
// one before it, is `dense`. The embedding keeps its own.
Recipe recipe_in_phase(Recipe recipe, std::int64_t phase);

// Whether linear layers become dense when this phase begins: it is the first such one, and not the run's
// first.
bool becomes_dense(const Recipe& recipe, std::int64_t phase);

}  // namespace comera
