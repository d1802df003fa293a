#pragma once

#include <string>

#include "kernels/core/dtype.h"
#include "kernels/ops/processor.h"

namespace comera {

// The processor that a device's name (kernels/core/device_name.h) stands for; "auto": the first GPU, if there
// is one and it computes in that type, else the CPU. tf32: as backend_of() takes it. UsageError if there is
// no such GPU, or the device does not compute in that type.
Processor find_processor(const std::string& name, DType compute, bool tf32 = false);
bool computes_in(const Processor& processor, DType compute);
Processor cpu_processor();

}  // namespace comera
