#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/ops/backend.h"

// The quick float32 kernels, one .cpp per operation or pair of operations, and the scratch they need.
COMERA_CPU_BEGIN

#define COMERA_KERNEL(operation, name) void name(const operation& op, const KernelContext& context);
#define COMERA_KERNEL_WITH_SCRATCH(operation, name) \
  COMERA_KERNEL(operation, name)                    \
  std::size_t name##_scratch(const operation& op);
#include "kernels/cpu/kernels.def"
#undef COMERA_KERNEL
#undef COMERA_KERNEL_WITH_SCRATCH

COMERA_CPU_END
