#pragma once

#include <string>
#include <vector>

#include "kernels/core/parameter.h"

namespace comera {

// A tensor train whose ranks training may change: a TT linear layer or a TTM embedding.
struct RankedLayer {
  std::string name;                // "encoder.0.attention.query", "embedding.tokens"
  std::vector<ParameterId> cores;  // K
  std::vector<ParameterId> gates;  // K - 1
  // Every bond keeps at least one entry: of the embedding and of the head's layer, without which there is no
  // model.
  bool keeps_one = false;
  // Index, in the list that this is in, of the layer without which nobody sees this one; -1: none. Queries
  // need keys, keys values, values the attention's output; a feed-forward's first layer needs its second.
  int needs = -1;
};

}  // namespace comera
