#include "kernels/core/tensors/tensor.h"

namespace comera {

Tensor Tensor::reshape(Shape shape) const {
  COMERA_CHECK(shape.elements() == elements(), "cannot view {} as {}: the element counts differ",
               shape_.text(), shape.text());
  return Tensor(data_, shape, dtype_, device_);
}

Tensor Tensor::slice(std::int64_t begin, Shape shape) const {
  COMERA_CHECK(begin >= 0 && begin + shape.elements() <= elements(), "slice {} at {} is outside of {}",
               shape.text(), begin, shape_.text());
  return Tensor(static_cast<std::byte*>(data_) + begin * size_of(dtype_), shape, dtype_, device_);
}

Tensor Tensor::from(std::int64_t begin) const { return slice(begin, {elements() - begin}); }

Tensor Tensor::rows(std::int64_t begin, std::int64_t count) const {
  const std::int64_t width = shape_[0] == 0 ? 0 : elements() / shape_[0];
  COMERA_CHECK(begin >= 0 && begin + count <= shape_[0], "rows {}..{} are outside of {}", begin,
               begin + count, shape_.text());
  return slice(begin * width, shape_.dims() == 1 ? Shape{count} : Shape{count, width});
}

void Tensor::check_dtype(DType wanted) const {
  COMERA_CHECK(wanted == dtype_, "a {} tensor was read as {}", name_of(dtype_), name_of(wanted));
}

}  // namespace comera
