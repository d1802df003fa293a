#include "kernels/core/tensors/finite.h"

#include <algorithm>
#include <cmath>

namespace comera {

namespace {

// Tests whole blocks without a branch per number, so that they can be vectorised.
template <class T>
bool are_finite(std::span<const T> numbers) {
  constexpr std::size_t block = 4096;
  for (std::size_t begin = 0; begin < numbers.size(); begin += block) {
    int others = 0;
    for (const T number : numbers.subspan(begin, std::min(block, numbers.size() - begin)))
      others |= std::isfinite(number) ? 0 : 1;
    if (others != 0) return false;
  }
  return true;
}

template <class T>
std::span<const T> numeric_columns_of(const Tensor& tensor) {
  return {tensor.data<T>(), static_cast<std::size_t>(tensor.elements())};
}

}  // namespace

bool all_finite(std::span<const float> numbers) { return are_finite(numbers); }
bool all_finite(std::span<const double> numbers) { return are_finite(numbers); }

bool all_finite(const Tensor& tensor) {
  if (tensor.dtype() == DType::float32) return are_finite(numeric_columns_of<float>(tensor));
  if (tensor.dtype() == DType::float64) return are_finite(numeric_columns_of<double>(tensor));
  if (tensor.dtype() != DType::bfloat16) return true;
  return std::ranges::all_of(numeric_columns_of<bfloat16>(tensor),
                             [](bfloat16 number) { return std::isfinite(static_cast<float>(number)); });
}

std::optional<ParameterId> find_nonfinite(const ParameterStore& store, const Tensor& flat) {
  HostCopy copy(store.allocator(), flat);
  const Tensor& host = copy.read().tensor();
  if (all_finite(host)) return std::nullopt;
  for (ParameterId id = 0; id < store.size(); ++id)
    if (!all_finite(host.slice(store.offset(id), store.info(id).shape))) return id;
  return std::nullopt;  // in the gaps between tensors, which are unused
}

}  // namespace comera
