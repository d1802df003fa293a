#pragma once

#include <string>

#include "kernels/core/tensors/parameter.h"

namespace comera {

// The parameters of a layer norm, as its operations expect them.
struct LayerNorm {
  ParameterId gamma = -1, beta = -1;
  double eps = 1e-12;

  static LayerNorm add(ParameterStore& store, const std::string& name, std::int64_t width, double eps);
};

// Statistics that a norm's forward keeps besides its input.
struct NormStatistics {
  Tensor mean, rstd;  // (rows)
};

}  // namespace comera
