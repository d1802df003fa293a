#pragma once

#include <vector>

#include "model/layers/encoder_block.h"
#include "tensorized/embedding/embedding.h"

namespace comera {

// Tensors that an encoder derives from its cores alone: valid until the cores change, or the arena is
// released to its earlier mark.
struct MergedEncoder {
  Embedding::Merged tokens;
  std::vector<EncoderBlock::Merged> blocks;
  MergedFactors head;  // of the head's first layer
};

}  // namespace comera
