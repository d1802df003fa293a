#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/ops/elementwise/activation.h"
#include "kernels/ops/tensor_trains/tt_linear.h"
#include "kernels/shared/float8.h"

// Products of 8-bit operands with sums in float32 (CoMERA, section 4.1). Operands are quantised with a scale
// for the whole tensor, in E4M3 or E5M2, and lie with the summed dimension adjacent, as Hopper's tensor cores
// take them: what is multiplied along its other dimension is quantised into a transposed copy.
namespace comera {

// Matrices of 8-bit numbers have rows and columns in multiples of this, with zeros in what is unused.
inline constexpr std::int64_t float8_multiple = 16;
constexpr std::int64_t float8_padded(std::int64_t count) {
  return (count + float8_multiple - 1) / float8_multiple * float8_multiple;
}

// y = activation(x) scale in 8 bits (kernels/shared/float8.h), zeros beyond x. Rounded once:
// activation(x) is not rounded to the type of x first.
struct Float8Quantize {
  // Whose scale.
  enum class Scaling : std::uint8_t {
    current,  // made from the largest magnitude of activation(x), which is kept as amax
    delayed,  // as it stands; amax becomes at least that magnitude
    kept,     // as it stands, and nothing is kept: the same tensor again, or an evaluation
  };

  Tensor x;  // rows `ld` elements apart
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

// y = x / scale: what 8-bit numbers stand for.
struct Float8Expand {
  Tensor x;      // any shape
  Tensor scale;  // Float8Scale
  Tensor y;      // out, as many elements

  DType compute() const { return y.dtype(); }
  void check() const;
};

// c = a bᵀ / (scale of a, scale of b), or c +=. a is m x k, b is n x k, both with k adjacent; n, k, all
// leading dimensions, and where rows begin in memory are multiples of 16. At most one of a and b is E5M2.
struct Float8Product {
  Tensor a, b;  // looked at as flat memory
  Tensor c;     // in its compute or master type
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;  // 0: adjacent
  Tensor scale_a, scale_b;                 // Float8Scale
  bool accumulate = false;
  // Sums may be kept with fewer bits (forward passes on Hopper).
  bool fast = false;
  DType type = DType::float32;  // of the activations that the product is for

  std::int64_t leading_a() const { return lda ? lda : k; }
  std::int64_t leading_b() const { return ldb ? ldb : k; }
  std::int64_t leading_c() const { return ldc ? ldc : n; }
  DType compute() const { return type; }
  void check() const;
};

// Where the scales of a tensor-train linear's operands lie in its tensor of Float8Scales.
struct Float8Slots {
  static constexpr int x = 0, a = 1, xa = 2, dxa = 3, b = 4, du = b + max_group_outputs;  // of output 0
  static constexpr int count = du + max_group_outputs;
  static constexpr bool is_gradient(std::int64_t slot) { return slot == dxa || slot >= du; }
};

// Which slots, counted from b and du, an operation's outputs have: layers of a group may be removed.
using Float8Outputs = std::array<int, max_group_outputs>;
inline constexpr Float8Outputs every_output = {0, 1, 2};

// How the products of a linear are done in 8 bits.
struct Float8Options {
  bool delayed = false;  // else the scales are current
  bool record = true;    // of delayed scales; false: an evaluation, of which they keep nothing
  int margin = 0;
  DType gradients = DType::float8_e5m2;  // of du and dxa; everything else is E4M3

  friend bool operator==(const Float8Options&, const Float8Options&) = default;
};

// TTLinearForward and TTLinearBackward with 8-bit operands. Inputs, widths and columns where an output begins
// are multiples of 16, and a has columns up to the padded end of every output, zero where no B_i has a row:
// xa then has zeros there too. Tokens beyond a multiple of 16 are zeros in the copies. a and b may be of the
// master type, so that they are rounded once.
struct Float8LinearForward {
  TTLinearForward linear;
  Tensor scales;  // Float8Scale (Float8Slots::count), in and out
  Float8Options options;
  // The operand is input_activation(linear.x), which is written in 8 bits only.
  Activation input_activation = Activation::none;
  // Once more from xa, which is there, with the scales as they stand: u_i and y_i to the bit.
  bool again = false;
  Float8Outputs outputs = every_output;

  DType compute() const { return linear.compute(); }
  void check() const;
};

// With the scales that the forward pass left. Columns of da and dxa beyond an output's rank are written too.
struct Float8LinearBackward {
  TTLinearBackward linear;
  Tensor scales;
  Float8Options options;
  Activation input_activation = Activation::none;  // as forwards; linear.dx is the gradient of its value
  Float8Outputs outputs = every_output;

  DType compute() const { return linear.compute(); }
  void check() const;
};

// After a step with delayed scales: each amax goes into its history, a ring of `length` steps, and is set to
// 0; the scale follows from the largest of the history. What is not finite is left out. Nothing happens if
// StepResults::nonfinite is set, but amax becomes 0.
struct Float8NextScales {
  Tensor scales;    // Float8Scale (count), in and out
  Tensor largest;   // float32 (count): of the format of each
  Tensor history;   // float32 (count, length), in and out
  Tensor position;  // int64 (1), in and out: steps so far
  Tensor results;   // StepResults
  int margin = 0;

  DType compute() const { return DType::float32; }
  void check() const;
};

}  // namespace comera
