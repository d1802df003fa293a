#pragma once

#include <string>

#include "kernels/core/tensors/dtype.h"
#include "kernels/ops/processor.h"

namespace comera {

// What is known of a machine's GPUs. Reasons are parts of sentences.
struct GpuReport {
  int count = 0;              // that can be called
  std::string why_none = {};  // if there are none
  bool misses_one = false;    // one seems to be there, which cannot be called for that reason
  std::string (*why_unfit)(int device) = nullptr;  // why it cannot run the kernels; "" if it can
};
GpuReport report_gpus();

// The processor for a device name (kernels/core/device_name.h); "auto": the first GPU, if there is one that
// runs the kernels and supports the type, else the CPU, which supports all; a message says so if there is a
// GPU that cannot be used. UsageError if there is no such GPU, it is too old, or it does not support the type
// or the operands.
Processor find_processor(const std::string& name, DType compute,
                         OperandKind operands = OperandKind::as_they_are);
// The same checks of the name alone, which take no memory of a GPU: before work that would be in vain.
void require_device(const std::string& name);
Processor find_processor(const std::string& name, DType compute, OperandKind operands, const GpuReport& gpus);
// Whether the processor supports the operands; a CPU supports everything, if slowly.
bool multiplies(const Processor& processor, OperandKind operands);
Processor cpu_processor();

// Whether products of bfloat16 are faster than those of float32: true on a GPU, and on a CPU with efficient
// instructions for them.
bool faster_in_bfloat16(const Processor& processor);

// Of the processor that find_processor(name) would give, without making anything on a GPU: whether it is one,
// and whether faster_in_bfloat16(). A GPU that is named may be absent.
bool would_be_on_gpu(const std::string& name);
bool would_be_faster_in_bfloat16(const std::string& name);

// What determines the bits of a result with such activations: the instruction set of the CPU's kernels ("v3",
// "v4", "bf16", "amx"), or the GPU's backend.
std::string computes_with(const Processor& processor, DType compute);

}  // namespace comera
