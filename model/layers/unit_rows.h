#pragma once

#include "kernels/ops/context.h"

namespace comera {

// Rows scaled to one length, composed of operations that every backend has. x and -x interleaved have the
// mean 0 and the variance |x|² / width, so a layer norm with a constant gamma scales them: with
//   y = layer norm of [x_0, -x_0, x_1, -x_1, ...],   gamma = √(scale / (2 width)),   beta = 0
// a product of two rows y is scale times the cosine of the rows x. Rows of zeros stay zeros.
class UnitRows {
 public:
  // Keeps what the backward pass needs in the arena. x (rows, width), in the master type.
  UnitRows(const Context& context, const Tensor& x, double scale);

  const Tensor& y() const { return y_; }  // (rows, 2 width)
  // dx (rows, width) of dy, which is overwritten.
  void backward(const Context& context, const Tensor& dy, const Tensor& dx) const;

 private:
  Tensor signs_, doubled_, gamma_, y_, mean_, rstd_;
};

}  // namespace comera
