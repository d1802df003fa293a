#pragma once

#include <string>
#include <vector>

#include "kernels/core/tensors/parameter.h"

namespace comera {

// A tensor train whose ranks training may change: that of a linear layer, or the token embedding's TTM.
struct RankedLayer {
  std::string name;                // "encoder.0.attention.query", "embedding.tokens"
  std::vector<ParameterId> cores;  // K
  std::vector<ParameterId> gates;  // K - 1, at least one
  bool keeps_one = false;          // never removed: every bond keeps at least rank 1
  // Where in the list the layer is without which nobody sees this one: the next in query, key, value, output
  // of one attention, or up, down. -1: none.
  int needs = -1;
};

}  // namespace comera
