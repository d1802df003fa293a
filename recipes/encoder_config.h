#pragma once

#include "recipes/recipe.h"

namespace comera {

// The model that the recipe describes. The tokenizer's vocabulary is needed when the recipe leaves
// model.vocabulary at 0; a larger one than the recipe's is refused. Throws UsageError.
EncoderConfig encoder_config(const Recipe& recipe, std::int64_t tokenizer_vocabulary = 0);

// The same with this vocabulary, whether or not it is a possible model (EncoderConfig::validate).
EncoderConfig unchecked_encoder_config(const Recipe& recipe, std::int64_t vocabulary);

// Narrow tables need other modes of the table and of the head than a recipe may have. Throws UsageError, with
// the keys to give.
void check_narrow_shapes(const EncoderConfig& config);

}  // namespace comera
