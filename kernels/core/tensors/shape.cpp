#include "kernels/core/tensors/shape.h"

#include "kernels/core/check.h"

namespace comera {

Shape::Shape(std::initializer_list<std::int64_t> dims) {
  COMERA_CHECK(dims.size() <= max_dims, "a shape has at most {} dimensions, not {}", max_dims, dims.size());
  for (auto dim : dims) {
    COMERA_CHECK(dim >= 0, "a dimension cannot be negative, but {} was given", dim);
    dims_[count_++] = dim;
  }
}

std::int64_t Shape::elements() const {
  if (count_ == 0) return 0;
  std::int64_t product = 1;
  for (int axis = 0; axis < count_; ++axis) product *= dims_[axis];
  return product;
}

std::string Shape::text() const {
  std::string out = "(";
  for (int axis = 0; axis < count_; ++axis) out += fmt::format("{}{}", axis ? ", " : "", dims_[axis]);
  return out + ")";
}

}  // namespace comera
