#pragma once

#include "kernels/core/profile.h"
#include "kernels/ops/backend.h"

namespace comera {

// The minimal work of an operation, from its shapes (after check()):
//
//   flops   of its products, two for each multiply-add; element formulas such as GELU or exp are not counted
//   inner   scores of attention; elements of h in TTInnerForward and its backward pass
//   bytes   each tensor read once and written once; accumulated tensors count as both
//
// Batch-dependent work is counted at capacity: as many keys as the longest sequence may have, all rows.
// Operations with a fallback decomposition (kernels/ops/compositions.h) are counted by their parts.
#define COMERA_WORK_OF(name) Work work_of(const name& operation);
COMERA_OPERATIONS(COMERA_WORK_OF)
#undef COMERA_WORK_OF

}  // namespace comera
