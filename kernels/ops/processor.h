#pragma once

#include "kernels/core/tensors/memory.h"
#include "kernels/ops/backend.h"

namespace comera {

// What products multiply.
enum class OperandKind : std::uint8_t {
  as_they_are,  // numbers of the operation's type
  tf32,         // a GPU rounds float32 to TF32 (attention's too); the CPU has no such products
  float8,       // some operations have 8-bit operands
};

// Where a model runs: the kernels of a device, and its memory.
struct Processor {
  const Backend& backend;
  Allocator& allocator;
  bool graphs = true;  // a step's work is recorded once and replayed, on devices that can
};

}  // namespace comera
