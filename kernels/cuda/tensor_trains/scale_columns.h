#pragma once

#include "kernels/core/device.h"
#include "kernels/core/tensors/tensor.h"

namespace comera::COMERA_CUDA {

// Enqueues y[i, j] = x[i, j] gate[j] on the stream, in float32. x has as many columns as the gate; y has row
// stride ldy.
void scale_columns(const Stream& stream, const Tensor& x, const Tensor& gate, const Tensor& y,
                   std::int64_t ldy);

}  // namespace comera::COMERA_CUDA
