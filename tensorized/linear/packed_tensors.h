#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "kernels/core/tensors/tensor.h"

namespace comera {

// Tensors packed into one block of memory, so that they can be filled or converted at once. Each begins at a
// multiple of 256 bytes.
class PackedTensors {
 public:
  explicit PackedTensors(std::initializer_list<Shape> shapes) : shapes_(shapes) {}
  explicit PackedTensors(std::vector<Shape> shapes) : shapes_(std::move(shapes)) {}

  std::int64_t elements() const {
    std::int64_t sum = 0;
    for (const Shape& shape : shapes_) sum += room(shape);
    return sum;
  }
  // The tensors as views of `whole`, a flat block of the packed size.
  std::vector<Tensor> in(const Tensor& whole) const {
    std::vector<Tensor> parts;
    std::int64_t begin = 0;
    for (const Shape& shape : shapes_) {
      parts.push_back(whole.slice(begin, shape));
      begin += room(shape);
    }
    return parts;
  }

 private:
  static std::int64_t room(const Shape& shape) {
    constexpr std::int64_t multiple = 128;  // in elements of two bytes or more
    return (shape.elements() + multiple - 1) / multiple * multiple;
  }

  std::vector<Shape> shapes_;
};

}  // namespace comera
