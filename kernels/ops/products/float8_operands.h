#pragma once

#include "kernels/ops/context.h"
#include "kernels/ops/products/float8.h"

namespace comera {

// Quantises the operands of a linear layer's products to 8 bits, in the memory of a scope, each with its
// scale.
class Float8Operands {
 public:
  // scales: Float8Scale (Float8Slots::count)
  Float8Operands(const Context& context, ArenaScope& scope, const Tensor& scales,
                 const Float8Options& options)
      : context_(context), scope_(scope), scales_(scales), options_(options) {}

  Tensor scale(int slot) const {
    constexpr std::int64_t bytes = sizeof(Float8Scale);
    return scales_.slice(slot * bytes, {bytes});
  }

  enum class Copies : std::uint8_t { straight, transposed, both };
  struct Operand {
    Tensor straight;    // (padded rows, padded columns), or left out
    Tensor transposed;  // (padded columns, padded rows), or left out
  };
  // first: used by a forward pass, or a gradient in the backward pass: chooses a new scale. again: keeps the
  // scale.
  enum class Seen : std::uint8_t { first, again };
  // Quantises activation(x); x is (rows, columns).
  Operand quantize(int slot, const Tensor& x, std::int64_t rows, std::int64_t columns, DType type,
                   Copies copies, Seen seen = Seen::first, Activation activation = Activation::none) const;

 private:
  Float8Quantize::Scaling scaling(Seen seen) const;

  const Context& context_;
  ArenaScope& scope_;
  Tensor scales_;
  Float8Options options_;
};

}  // namespace comera
