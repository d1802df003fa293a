#pragma once

#include "recipes/source.h"

namespace comera {
struct Recipe;
}

namespace comera::recipe_detail {

// Validation across keys: values that contradict each other. Throws UsageError with the position.
void validate(const Recipe& recipe, const Places& places);

// Rules for training only: a checkpoint's recipe is not rejected for how it was trained.
void validate_training(const Recipe& recipe, const Places& places);

}  // namespace comera::recipe_detail
