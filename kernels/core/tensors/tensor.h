#pragma once

#include "kernels/core/check.h"
#include "kernels/core/device.h"
#include "kernels/core/tensors/dtype.h"
#include "kernels/core/tensors/shape.h"

namespace comera {

// A non-owning, contiguous, row-major view. Buffer and Arena own the memory.
class Tensor {
 public:
  Tensor() = default;
  Tensor(void* data, Shape shape, DType dtype, Device device = {})
      : data_(data), shape_(shape), dtype_(dtype), device_(device) {}

  bool empty() const { return shape_.elements() == 0; }
  explicit operator bool() const { return data_ != nullptr; }

  const Shape& shape() const { return shape_; }
  std::int64_t dim(int axis) const { return shape_[axis]; }
  std::int64_t elements() const { return shape_.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

  void* raw() const { return data_; }
  template <class T>
  T* data() const {
    check_dtype(dtype_of<T>);
    return static_cast<T*>(data_);
  }

  // The same memory with another shape of as many elements.
  Tensor reshape(Shape shape) const;
  // Rows [begin, begin + count) of the first axis.
  Tensor rows(std::int64_t begin, std::int64_t count) const;
  // Elements [begin, begin + shape.elements()) of the flat memory, under shape.
  Tensor slice(std::int64_t begin, Shape shape) const;
  // The flat memory starting at an element, such as the first of a column: for operations that take a leading
  // dimension.
  Tensor from(std::int64_t begin) const;

 private:
  void check_dtype(DType wanted) const;

  void* data_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::float32;
  Device device_;
};

}  // namespace comera
