#pragma once

#include <string>

#include "recipes/recipe.h"

namespace comera::cli {

// The number format for precision.compute = "auto" on a processor: bfloat16 where it is faster. Click models
// compute in float32.
Compute automatic_compute(const Recipe& recipe, bool faster_in_bfloat16);
// Replaces "auto" by the format for the recipe's device (run.device), or by another device's that is named.
void choose_precision(Recipe& recipe, const std::string& device = "");

// What to say of a new training's number format on this machine, in one line; empty if nothing.
std::string precision_note(const Recipe& recipe, bool on_gpu);

// The same where a model of this recipe predicts.
std::string inference_precision_note(const Recipe& recipe);

}  // namespace comera::cli
