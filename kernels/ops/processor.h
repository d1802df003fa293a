#pragma once

#include "kernels/core/memory.h"
#include "kernels/ops/backend.h"

namespace comera {

// Where a model runs: the kernels of a device, and its memory.
struct Processor {
  const Backend& backend;
  Allocator& allocator;
  bool graphs = true;  // a step's work is recorded once and replayed, on devices that can
};

}  // namespace comera
