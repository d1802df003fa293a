#pragma once

#include <string>

#include "kernels/core/dtype.h"
#include "kernels/ops/processor.h"

namespace comera {

// Whether a text names a device: "auto", "cpu", "cuda" (the first GPU) or "cuda:N".
bool is_device_name(const std::string& text);
inline constexpr const char* device_names = "auto, cpu, cuda or cuda:N";

// The processor that a name stands for; "auto": the first GPU, if there is one and it computes in that type,
// else the CPU. UsageError if there is no such GPU, or it does not compute in that type.
Processor find_processor(const std::string& name, DType compute);
Processor cpu_processor();

}  // namespace comera
