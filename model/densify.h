#pragma once

#include "model/model.h"

namespace comera {

// The configuration of the model that densify() fills: every layer dense, in the master type, with nothing
// left of what only training needs.
EncoderConfig densified(const EncoderConfig& config);

// Gives `dense`, which must have been made with densified(model.config()), the weights of `model`: those of
// its layers as they are evaluated, adapters merged, and all else as it is. Either may be in the memory of
// another device.
void densify(const Model& model, const Model& dense);

}  // namespace comera
