#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace comera::python {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<nb::numpy, T>;

// An array of numpy that owns its numbers.
template <class T, class From>
Array<T> array_of(const std::vector<From>& values, const std::vector<std::size_t>& shape) {
  auto numbers = std::make_unique<T[]>(values.size());
  std::ranges::copy(values, numbers.get());
  T* const data = numbers.release();
  const nb::capsule owner(data, [](void* given) noexcept { delete[] static_cast<T*>(given); });
  return Array<T>(data, shape.size(), shape.data(), owner);
}

// "float32 vectors" of sizes in int64.
inline std::vector<std::size_t> sizes_of(std::initializer_list<std::int64_t> sizes) {
  return {sizes.begin(), sizes.end()};
}

void add_model(nb::module_& module);
void add_shards(nb::module_& module);

}  // namespace comera::python
