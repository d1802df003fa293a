#pragma once

#include <optional>
#include <string>

#include "kernels/core/tensors/tensor.h"
#include "kernels/ops/elementwise/activation.h"

namespace comera {

// The inner part of a feed-forward network of two tensor-train layers
// (kernels/ops/tensor_trains/tt_feed_forward.h), between their adjacent factors: it maps each token from r to
// M to s values, where M is many times r and s.
//
//   h = activation(xa b_up + bias);   ha = h a_down
//
// A backend with a native kernel never writes h (T, M) to memory.
struct TTInnerForward {
  Tensor xa;      // (T, r)
  Tensor b_up;    // (r, M)
  Tensor bias;    // (M)
  Tensor a_down;  // (M, s)
  Activation activation = Activation::gelu;
  Tensor ha;  // out (T, s)

  DType compute() const { return xa.dtype(); }
  void check() const;
};

//   da_down += hᵀ dha;   du = (dha a_downᵀ) activation'(u);   dbias += column sums of du
//   db_up += xaᵀ du;   dxa = du b_upᵀ
struct TTInnerBackward {
  Tensor xa, b_up, bias, a_down;
  Activation activation = Activation::gelu;
  Tensor dha;                    // (T, s)
  Tensor db_up, dbias, da_down;  // in and out, shaped as the corresponding tensors
  Tensor dxa;                    // out (T, r)

  DType compute() const { return xa.dtype(); }
  void check() const;
};

// The ranks that a GPU's kernels of both operations take (kernels/cuda/tensor_trains/tt_inner.cu).
inline constexpr std::int64_t most_inner_rank = 128;
// Why those kernels do not take such an inner part, which then stores h; nothing if they do.
std::optional<std::string> why_no_gpu_kernel(DType compute, Activation activation, std::int64_t inner,
                                             std::int64_t rank_up, std::int64_t rank_down);

}  // namespace comera
