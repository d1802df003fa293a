#pragma once

#include "kernels/core/tensors/memory.h"
#include "kernels/ops/backend.h"

namespace comera::test {

// What Float8Quantize makes of x with an activation is, to the bit, what it makes of the activation's values
// in float32: scale, largest magnitude and codes, straight and transposed; of any number, an infinity and a
// NaN too. Of x in bfloat16 as well, where the backend has it: the values are not rounded to it in between.
void expect_the_codes_of_an_activations_values(const Backend& backend, Allocator& allocator);

}  // namespace comera::test
