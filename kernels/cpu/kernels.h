#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/ops/backend.h"

// The optimised kernels, one .cpp per operation or pair of operations, and the scratch they need. All compute
// in float32; the typed ones load and store activations as float or bfloat16 (T), and are instantiated for
// both by COMERA_FOR_EACH_TYPE at the end of their files.
COMERA_CPU_BEGIN

#define COMERA_KERNEL(operation, name) void name(const operation& op, const KernelContext& context);
#define COMERA_TYPED_KERNEL(operation, name) \
  template <class T>                         \
  COMERA_KERNEL(operation, name)
#define COMERA_SCRATCH(operation, name) std::size_t name##_scratch(const operation& op);
#define COMERA_KERNEL_WITH_SCRATCH(operation, name) \
  COMERA_KERNEL(operation, name)                    \
  COMERA_SCRATCH(operation, name)
#define COMERA_TYPED_KERNEL_WITH_SCRATCH(operation, name) \
  COMERA_TYPED_KERNEL(operation, name)                    \
  COMERA_SCRATCH(operation, name)
#include "kernels/cpu/kernels.def"
#undef COMERA_KERNEL
#undef COMERA_TYPED_KERNEL
#undef COMERA_SCRATCH
#undef COMERA_KERNEL_WITH_SCRATCH
#undef COMERA_TYPED_KERNEL_WITH_SCRATCH

// NOLINTBEGIN(bugprone-macro-parentheses): a name
#define COMERA_FOR_EACH_TYPE(operation, name)                           \
  template void name<float>(const operation& op, const KernelContext&); \
  template void name<bfloat16>(const operation& op, const KernelContext&);
// NOLINTEND(bugprone-macro-parentheses)

COMERA_CPU_END
