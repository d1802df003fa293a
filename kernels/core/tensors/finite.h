#pragma once

#include <optional>
#include <span>

#include "kernels/core/tensors/parameter.h"

// The one place that says whether numbers are finite: neither infinite nor NaN.
namespace comera {

bool all_finite(std::span<const float> numbers);
bool all_finite(std::span<const double> numbers);
// Of a tensor in the host's memory. Integers always are.
bool all_finite(const Tensor& tensor);

// The first parameter, in the order of a forward pass, that has a number in `flat` which is not finite; flat:
// laid out as all of the store's parameters, frozen ones too. Waits for the device.
std::optional<ParameterId> find_nonfinite(const ParameterStore& store, const Tensor& flat);

}  // namespace comera
