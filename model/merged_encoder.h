#pragma once

#include <vector>

#include "model/layers/encoder_block.h"
#include "tensorized/embedding/embedding.h"

namespace comera {

// What an encoder makes of its cores alone: good until they change, or the arena is released to where it was.
struct MergedEncoder {
  Embedding::Merged tokens;
  std::vector<EncoderBlock::Merged> blocks;
};

}  // namespace comera
