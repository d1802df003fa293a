#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/ops/elementwise/activation.h"
#include "kernels/ops/tensor_trains/tt_linear.h"
#include "kernels/shared/float8.h"

// Products of 8-bit operands with sums in float32 (CoMERA, section 4.1). Operands are quantised with one
// scale per tensor, in E4M3 or E5M2, and are contiguous along the summed dimension, as Hopper's tensor cores
// require: an operand that is summed along its other dimension is quantised into a transposed copy.
namespace comera {

// Rows and columns of 8-bit matrices are padded with zeros to multiples of this.
inline constexpr std::int64_t float8_multiple = 16;
constexpr std::int64_t float8_padded(std::int64_t count) {
  return (count + float8_multiple - 1) / float8_multiple * float8_multiple;
}

// y = activation(x) scale in 8 bits (kernels/shared/float8.h), zeros beyond x. Rounded once: activation(x) is
// not first rounded to the type of x.
struct Float8Quantize {
  // How the scale is chosen.
  enum class Scaling : std::uint8_t {
    current,  // from the largest magnitude of activation(x), stored as amax
    delayed,  // the given scale; amax is raised to the largest magnitude
    kept,     // the given scale; amax is unchanged: the same tensor again, or an evaluation
  };

  Tensor x;  // row stride `ld`
  std::int64_t rows = 0, columns = 0;
  std::int64_t ld = 0;  // 0: adjacent
  Activation activation = Activation::none;
  Scaling scaling = Scaling::current;
  int margin = 0;     // current: the scale is 2^margin times smaller than it could be
  Tensor scale;       // Float8Scale, in and out
  Tensor y;           // out (padded rows, padded columns) of an 8-bit type, or left out
  Tensor transposed;  // out (padded columns, padded rows) of the same type, or left out

  std::int64_t leading() const { return ld ? ld : columns; }
  DType type() const { return y ? y.dtype() : transposed.dtype(); }
  DType compute() const { return x.dtype(); }
  void check() const;
};

// y = x / scale: dequantises 8-bit numbers.
struct Float8Expand {
  Tensor x;      // any shape
  Tensor scale;  // Float8Scale
  Tensor y;      // out, same number of elements

  DType compute() const { return y.dtype(); }
  void check() const;
};

// c = a bᵀ / (scale of a, scale of b), or c +=. a is m x k, b is n x k, both contiguous along k; n, k, all
// leading dimensions, and row addresses are multiples of 16. At most one of a and b is E5M2.
struct Float8Product {
  Tensor a, b;  // treated as flat memory
  Tensor c;     // in its compute or master type
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;  // 0: adjacent
  Tensor scale_a, scale_b;                 // Float8Scale
  bool accumulate = false;
  // Sums may be accumulated with fewer bits (forward passes on Hopper).
  bool fast = false;
  DType type = DType::float32;  // of the activations in the product

  std::int64_t leading_a() const { return lda ? lda : k; }
  std::int64_t leading_b() const { return ldb ? ldb : k; }
  std::int64_t leading_c() const { return ldc ? ldc : n; }
  DType compute() const { return type; }
  void check() const;
};

// The indices of a tensor-train layer's operands in its tensor of Float8Scales.
struct Float8Slots {
  static constexpr int x = 0, a = 1, xa = 2, dxa = 3, b = 4, du = b + max_group_outputs;  // for output 0
  static constexpr int count = du + max_group_outputs;
  static constexpr bool is_gradient(std::int64_t slot) { return slot == dxa || slot >= du; }
};

// The slots of an operation's outputs, counted from b and du: layers of a group may be removed.
using Float8Outputs = std::array<int, max_group_outputs>;
inline constexpr Float8Outputs every_output = {0, 1, 2};

// Options of a linear layer's products in 8 bits.
struct Float8Options {
  bool delayed = false;  // otherwise current scales
  bool record = true;    // delayed scales; false: an evaluation, which leaves amax unchanged
  int margin = 0;
  DType gradients = DType::float8_e5m2;  // of du and dxa; everything else is E4M3

  friend bool operator==(const Float8Options&, const Float8Options&) = default;
};

// TTLinearForward and TTLinearBackward with 8-bit operands. Inputs, widths and the first column of each
// output are multiples of 16. `a` has columns up to the padded end of every output, zero where no B_i has a
// row, so that xa is zero there too. Tokens are padded with zeros to a multiple of 16 in the copies. a and b
// may be in the master type, so that they are rounded once.
struct Float8LinearForward {
  TTLinearForward linear;
  Tensor scales;  // Float8Scale (Float8Slots::count), in and out
  Float8Options options;
  // The operand is input_activation(linear.x), which exists only in 8 bits.
  Activation input_activation = Activation::none;
  // Recomputes u_i and y_i bit-exactly from the given xa, with the existing scales.
  bool again = false;
  Float8Outputs outputs = every_output;

  DType compute() const { return linear.compute(); }
  void check() const;
};

// With the scales of the forward pass. Columns of da and dxa beyond an output's rank are written too.
struct Float8LinearBackward {
  TTLinearBackward linear;
  Tensor scales;
  Float8Options options;
  Activation input_activation = Activation::none;  // as in forward; linear.dx is the gradient of its value
  Float8Outputs outputs = every_output;

  DType compute() const { return linear.compute(); }
  void check() const;
};

// After a step with delayed scales: moves each amax into its history, a ring of `length` steps, and sets it
// to 0; derives the scale from the largest value of the history. Non-finite values are ignored. If
// StepResults::nonfinite is set, only amax becomes 0.
struct Float8NextScales {
  Tensor scales;    // Float8Scale (count), in and out
  Tensor largest;   // float32 (count): largest number of each format
  Tensor history;   // float32 (count, length), in and out
  Tensor position;  // int64 (1), in and out: steps so far
  Tensor results;   // StepResults
  int margin = 0;

  DType compute() const { return DType::float32; }
  void check() const;
};

}  // namespace comera
