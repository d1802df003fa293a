#pragma once

#include "kernels/core/tensors/dtype.h"

namespace comera {

// What the processor behind a backend is assumed to do, for code that chooses between ways to compute the
// same thing (tensorized/plan.h). Only ratios matter: they move the places where one way overtakes another.
// No number is measured and none depends on the number of threads: a choice decides how results are rounded,
// so that runs that must agree to the bit (resumed ones, other numbers of threads, all processes of a job)
// must choose alike. On a GPU it follows from the card, so that these need the same one.
struct MachineModel {
  double flops_per_second = 0;         // of products in float32, and of those in float64, which tests use
  double narrow_flops_per_second = 0;  // of products in bfloat16
  double bytes_per_second = 0;         // to and from memory
  double seconds_per_call = 0;         // of an operation, however small it is

  double flops_in(DType compute) const {
    return compute == DType::bfloat16 ? narrow_flops_per_second : flops_per_second;
  }
};

}  // namespace comera
