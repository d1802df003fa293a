#pragma once

#include "recipes/source.h"

namespace comera {
struct Recipe;
}

namespace comera::recipe_detail {

// What single keys cannot say: values that contradict each other. Throws UsageError with the place.
void validate(const Recipe& recipe, const Places& places);

// What only training minds: a checkpoint's recipe is not refused for how it was trained.
void validate_training(const Recipe& recipe, const Places& places);

}  // namespace comera::recipe_detail
