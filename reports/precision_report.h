#pragma once

#include <string>

#include "recipes/recipe.h"

namespace comera {

// Every product of a training step on a micro-batch of so many tokens, in sequences of `length`: its sizes,
// the type of its operands and, where that is not the one the recipe asks for, why; then how much of the work
// is done in which type. Of a dry run: nothing is computed. Layers that are alike share a line.
std::string precision_report(const Recipe& recipe, std::int64_t vocabulary, std::int64_t tokens,
                             std::int64_t length);

}  // namespace comera
