#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace comera {

// Makes the shapes of tensor trains fit another model: those whose modes do not multiply to its widths get as
// many modes as before, as equal as possible, and their ranks as far as they are possible; the others stay.
// The table also gets other rows where it has too few for the vocabulary, or more than twice as many. Returns
// a sentence for each shape that changed. UsageError, with the keys to give, for a width without such modes.
std::vector<std::string> fit_shapes(TensorizedConfig& shapes, const EncoderArchitecture& model,
                                    std::int64_t vocabulary);

}  // namespace comera
