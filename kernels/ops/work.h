#pragma once

#include "kernels/core/profile.h"
#include "kernels/ops/backend.h"

namespace comera {

// What an operation must at least do, from its shapes (beside its check()):
//
//   flops   of its products, two for each multiply-add; element formulas such as GELU or exp are not counted
//   bytes   each tensor once for reading and once for writing; what is added to counts as both
//
// What depends on the batch is counted at capacity: as many keys as the longest sequence may have, all rows.
// Operations that are made of others (kernels/ops/compositions.h) are counted as those.
#define COMERA_WORK_OF(name) Work work_of(const name& operation);
COMERA_OPERATIONS(COMERA_WORK_OF)
#undef COMERA_WORK_OF

}  // namespace comera
