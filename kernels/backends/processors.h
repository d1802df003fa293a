#pragma once

#include <string>

#include "kernels/core/tensors/dtype.h"
#include "kernels/ops/processor.h"

namespace comera {

// The processor for a device name (kernels/core/device_name.h); "auto": the first GPU, if there is one that
// supports the type, else the CPU, which supports all. UsageError if there is no such GPU, or it does not
// support the type or the operands.
Processor find_processor(const std::string& name, DType compute,
                         OperandKind operands = OperandKind::as_they_are);
// The same check of the name alone, which takes no memory of a GPU: before work that would be in vain.
void require_device(const std::string& name);
// Whether the processor supports the operands; a CPU supports everything, if slowly.
bool multiplies(const Processor& processor, OperandKind operands);
Processor cpu_processor();

// Whether products of bfloat16 are faster than those of float32: true on a GPU, and on a CPU with efficient
// instructions for them.
bool faster_in_bfloat16(const Processor& processor);

// What determines the bits of a result with such activations: the instruction set of the CPU's kernels ("v3",
// "v4", "bf16", "amx"), or the GPU's backend.
std::string computes_with(const Processor& processor, DType compute);

}  // namespace comera
