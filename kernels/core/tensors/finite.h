#pragma once

#include <optional>
#include <span>

#include "kernels/core/tensors/parameter.h"

// The only code that checks whether values are finite: neither infinite nor NaN.
namespace comera {

bool all_finite(std::span<const float> numbers);
bool all_finite(std::span<const double> numbers);
// For a tensor in host memory. Integers are always finite.
bool all_finite(const Tensor& tensor);

// The first parameter, in the order of a forward pass, with a non-finite value in `flat`, which has the
// layout of all of the store's parameters, including frozen ones. Waits for the device.
std::optional<ParameterId> find_nonfinite(const ParameterStore& store, const Tensor& flat);

}  // namespace comera
