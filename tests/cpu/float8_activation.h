#pragma once

#include "kernels/core/memory.h"
#include "kernels/ops/backend.h"

namespace comera::test {

// Float8Quantize of x with an activation gives exactly the bits that it gives for the activation's values in
// float32: scale, largest magnitude and codes, straight and transposed; for any number, including infinity
// and NaN. Also for x in bfloat16, if the backend supports it: intermediate values are not rounded to it.
void expect_the_codes_of_an_activations_values(const Backend& backend, Allocator& allocator);

}  // namespace comera::test
