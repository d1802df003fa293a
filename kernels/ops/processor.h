#pragma once

#include "kernels/core/tensors/memory.h"
#include "kernels/ops/backend.h"

namespace comera {

// The number format of product operands.
enum class OperandKind : std::uint8_t {
  as_they_are,  // the operation's type
  tf32,         // a GPU rounds float32 to TF32 (in attention too); the CPU has no such products
  float8,       // some operations have 8-bit operands
};

// Where a model runs: a device's kernels and memory.
struct Processor {
  const Backend& backend;
  Allocator& allocator;
  bool graphs = true;  // records a step's work once and replays it, on devices that can
};

}  // namespace comera
