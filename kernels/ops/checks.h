#pragma once

#include <string_view>

#include "kernels/core/tensors/tensor.h"
#include "kernels/ops/elementwise/activation.h"

namespace comera {

// Throws Error naming the operation and the tensor unless it has data, this shape and this type.
void check_tensor(std::string_view operation, std::string_view name, const Tensor& tensor, const Shape& shape,
                  DType dtype);
// The same for an optional tensor.
void check_optional(std::string_view operation, std::string_view name, const Tensor& tensor,
                    const Shape& shape, DType dtype);
// Throws unless the tensor has data, `elements` elements in any shape, and this type.
void check_elements(std::string_view operation, std::string_view name, const Tensor& tensor,
                    std::int64_t elements, DType dtype);
// The StepInputs / StepResults tensors are bytes.
void check_step_values(std::string_view operation, std::string_view name, const Tensor& tensor,
                       std::size_t bytes);

// Throws unless it is one of all_activations.
void check_activation(std::string_view operation, Activation activation);
// Of u and y, the one that the activation's slope is computed from; empty if neither.
const Tensor& saved_of(Activation activation, const Tensor& u, const Tensor& y);
// Throws unless the activation is known, and that one is there.
void check_saved(std::string_view operation, Activation activation, const Tensor& u, const Tensor& y,
                 const Shape& shape, DType dtype);

}  // namespace comera
