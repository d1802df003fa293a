#include "kernels/ops/checks.h"

namespace comera {

void check_tensor(std::string_view operation, std::string_view name, const Tensor& tensor, const Shape& shape,
                  DType dtype) {
  COMERA_CHECK(static_cast<bool>(tensor) || shape.elements() == 0, "{}: {} is missing", operation, name);
  COMERA_CHECK(tensor.shape() == shape, "{}: {} must be {}, not {}", operation, name, shape.text(),
               tensor.shape().text());
  COMERA_CHECK(tensor.dtype() == dtype, "{}: {} must be {}, not {}", operation, name, name_of(dtype),
               name_of(tensor.dtype()));
}

void check_optional(std::string_view operation, std::string_view name, const Tensor& tensor,
                    const Shape& shape, DType dtype) {
  if (tensor) check_tensor(operation, name, tensor, shape, dtype);
}

void check_elements(std::string_view operation, std::string_view name, const Tensor& tensor,
                    std::int64_t elements, DType dtype) {
  COMERA_CHECK(static_cast<bool>(tensor) || elements == 0, "{}: {} is missing", operation, name);
  COMERA_CHECK(tensor.elements() == elements, "{}: {} must have {} elements, not {}", operation, name,
               elements, tensor.shape().text());
  COMERA_CHECK(tensor.dtype() == dtype, "{}: {} must be {}, not {}", operation, name, name_of(dtype),
               name_of(tensor.dtype()));
}

void check_step_values(std::string_view operation, std::string_view name, const Tensor& tensor,
                       std::size_t bytes) {
  COMERA_CHECK(static_cast<bool>(tensor) && tensor.bytes() >= bytes, "{}: {} must hold {} bytes, not {}",
               operation, name, bytes, tensor.bytes());
}

void check_activation(std::string_view operation, Activation activation) {
  COMERA_CHECK(traits_of(activation).name != nullptr, "{}: {} is no activation", operation,
               static_cast<int>(activation));
}

const Tensor& saved_of(Activation activation, const Tensor& u, const Tensor& y) {
  static const Tensor none;
  switch (traits_of(activation).slope_from) {
    case SlopeFrom::nothing:
      return none;
    case SlopeFrom::argument:
      return u;
    case SlopeFrom::value:
      return y;
  }
  return none;
}

void check_saved(std::string_view operation, Activation activation, const Tensor& u, const Tensor& y,
                 const Shape& shape, DType dtype) {
  check_activation(operation, activation);
  if (traits_of(activation).slope_from == SlopeFrom::nothing) return;
  check_tensor(operation, slope_by_argument(activation) ? "u" : "y", saved_of(activation, u, y), shape,
               dtype);
}

}  // namespace comera
