#pragma once

#include <string>
#include <vector>

#include "kernels/core/tensors/parameter.h"

namespace comera {

// A tensor train whose ranks training may change: in a linear layer, or the token embedding's TTM.
struct RankedLayer {
  std::string name;                // "encoder.0.attention.query", "embedding.tokens"
  std::vector<ParameterId> cores;  // K
  std::vector<ParameterId> gates;  // K - 1, at least one
  bool has_diagonal = false;       // which passes its input on even if the train is removed
  bool keeps_one = false;          // cannot be removed: every bond keeps at least rank 1
  // Index in the list of the layer that this one's output depends on: the next in query, key, value, output
  // of one attention, or up, down. If that layer is removed, this one has no effect. -1: none.
  int needs = -1;
};

}  // namespace comera
