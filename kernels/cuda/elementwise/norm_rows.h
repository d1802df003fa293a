#pragma once

#include <initializer_list>

#include "kernels/cuda/vector.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/products/weight_gradients.h"

// Layer norm over rows, alone or as the end of a block with bias, dropout and residual before it. The kernels
// are in norm_rows.cu; layer_norm.cu and bias_dropout_residual_norm.cu set their arguments. For float and
// bfloat16.
namespace comera::COMERA_CUDA {

template <class T>
struct NormForward {
  std::int64_t rows, width;
  const T *x, *residual;  // residual and bias: only at a block's end
  const float* bias;
  DropoutMask dropout;
  T* sum;                     // the normalised input; x itself for a plain norm
  const float *gamma, *beta;  // null: no norm
  float eps;
  T* y;
  float *mean, *rstd;
};

template <class T>
void run_norm_forward(const NormForward<T>& op, const Stream& stream);

template <class T>
struct NormBackward {
  std::int64_t rows, width;
  const T *dy, *x;
  const float *gamma, *mean, *rstd;  // null, as x: no norm, dsum = dy
  T* dsum;
  bool accumulate;
  T* dx;  // gradient of x, with dropout; null for a plain norm
  DropoutMask dropout;
  float* partial;  // (blocks, sums, width)
  int sums;        // number of those of dgamma, dbeta, dbias that exist
};

// sums: those of dgamma, dbeta and dbias that exist; they are added to at once or later. The kernel's scratch
// is norm_scratch(); op's last two members are set here.
template <class T>
void run_norm_backward(NormBackward<T> op, std::initializer_list<Tensor> sums, const LaterSums& later,
                       const KernelContext& context);
std::size_t norm_scratch(std::int64_t rows, std::int64_t width, int sums, const LaterSums& later);

}  // namespace comera::COMERA_CUDA
