#pragma once

#include <string>

#include "recipes/recipe.h"

namespace comera::cli {

// What to say of a new training's number format on this machine, in one line; empty if nothing.
std::string precision_note(const Recipe& recipe, bool on_gpu, bool faster_in_bfloat16);

}  // namespace comera::cli
