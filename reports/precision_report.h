#pragma once

#include <string>

#include "recipes/recipe.h"

namespace comera {

// Every product of a training step on a micro-batch of `tokens` tokens, in sequences of `length`: its sizes,
// the type of its operands and, if that is not the type in the recipe, the reason; then the share of work in
// each type. From a dry run: nothing is computed. Similar layers share a line.
std::string precision_report(const Recipe& recipe, std::int64_t vocabulary, std::int64_t tokens,
                             std::int64_t length);

}  // namespace comera
