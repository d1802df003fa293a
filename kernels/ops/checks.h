#pragma once

#include <string_view>

#include "kernels/core/tensor.h"

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

}  // namespace comera
