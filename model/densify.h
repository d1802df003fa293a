#pragma once

#include "model/model.h"

namespace comera {

// The configuration of the model that densify() fills: every layer dense, in the master type, without
// anything that only training needs.
EncoderConfig densified(const EncoderConfig& config);

// Copies the weights of `model` into `dense`, which must have been made with densified(model.config()).
// Layers are copied as evaluated, with adapters merged, everything else unchanged. Either model may be in the
// memory of another device.
void densify(const Model& model, const Model& dense);

}  // namespace comera
