#pragma once

#include <string>

#include "kernels/core/tensors/dtype.h"
#include "kernels/ops/processor.h"

namespace comera {

// The processor that a device's name (kernels/core/device_name.h) stands for; "auto": the first GPU, if there
// is one and it computes in that type, else the CPU, which computes in all. UsageError if there is no such
// GPU, or it does not compute in that type or multiply such operands.
Processor find_processor(const std::string& name, DType compute,
                         OperandKind operands = OperandKind::as_they_are);
// Whether the processor can do it at all; a CPU does everything, if slowly.
bool multiplies(const Processor& processor, OperandKind operands);
Processor cpu_processor();

// Whether products of bfloat16 are faster there than those of float32: on a GPU, and on a CPU with
// instructions for them that are worth taking.
bool faster_in_bfloat16(const Processor& processor);

// What decides about the bits of a result with such activations: the instruction set of the CPU's kernels
// ("v3", "v4", "bf16", "amx"), or the GPU's backend.
std::string computes_with(const Processor& processor, DType compute);

}  // namespace comera
