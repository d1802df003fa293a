#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

#include "kernels/core/check.h"

namespace comera {

// What one kind of layer keeps from its forward pass for its backward pass: a value of a type that the layer
// defines and nobody else knows. Trivially destructible, as tensors of an arena and plans are; it takes no
// memory of its own, so that a step allocates none.
class KeptState {
 public:
  static constexpr std::size_t capacity = 512;  // bytes

  template <class T>
  T& emplace() {
    static_assert(sizeof(T) <= capacity && alignof(T) <= alignof(std::max_align_t));
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    type_ = &type_of<T>;
    return *new (bytes_.data()) T();
  }
  // Error if the last emplace() was of another type.
  template <class T>
  const T& get() const {
    COMERA_CHECK(type_ == &type_of<T>, "a layer's backward pass was given what another kind has kept");
    return *std::launder(reinterpret_cast<const T*>(bytes_.data()));
  }

 private:
  template <class T>
  static constexpr char type_of = 0;

  alignas(std::max_align_t) std::array<std::byte, capacity> bytes_;
  const void* type_ = nullptr;
};

}  // namespace comera
