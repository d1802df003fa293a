#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace comera {

// Up to six dimensions, row-major, slowest first. No dimensions: no elements.
class Shape {
 public:
  static constexpr int max_dims = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);

  int dims() const { return count_; }
  std::int64_t operator[](int axis) const { return dims_[axis < 0 ? axis + count_ : axis]; }
  std::int64_t elements() const;
  std::span<const std::int64_t> sizes() const { return {dims_.data(), static_cast<std::size_t>(count_)}; }
  std::string text() const;  // "(4, 8)"

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, max_dims> dims_{};
  int count_ = 0;
};

}  // namespace comera
