#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace comera {

// Fits the shapes of tensor trains to another model. Shapes whose modes do not multiply to its widths get as
// many modes as before, as equal as possible, and their ranks limited to what is possible; other shapes are
// unchanged. The table also gets new row modes if it has too few rows for the vocabulary, or more than twice
// as many. Returns a sentence for each changed shape. UsageError, with the keys to give, for a width without
// such modes.
std::vector<std::string> fit_shapes(TensorizedConfig& shapes, const EncoderArchitecture& model,
                                    std::int64_t vocabulary);
// Trains of two cores, the two factors of a matrix, for all layers and the table, with the largest possible
// ranks.
void two_factors(TensorizedConfig& shapes, const EncoderArchitecture& model, std::int64_t vocabulary);
// Whether a table is such a matrix.
bool has_two_factors(const TTMShape& table);

// The same for the head alone: with narrow tables a pooler has other outputs than the layer before a decoder.
void fit_head(TensorizedConfig& shapes, const EncoderArchitecture& model, std::vector<std::string>& notes);

}  // namespace comera
