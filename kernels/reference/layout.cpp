#include <algorithm>

#include "kernels/ops/elementwise/layout.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class T>
void swap_axes(const SwapAxes& op, const KernelContext&) {
  const std::int64_t outer = op.x.dim(0), p = op.x.dim(1), q = op.x.dim(2), inner = op.x.dim(3);
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < p; ++i)
      for (std::int64_t j = 0; j < q; ++j)
        for (std::int64_t c = 0; c < inner; ++c)
          op.y.data<T>()[((o * q + j) * p + i) * inner + c] =
              op.x.data<T>()[((o * p + i) * q + j) * inner + c];
}

template <class T>
void fill(const Fill& op, const KernelContext&) {
  std::fill_n(op.x.data<T>(), op.x.elements(), static_cast<T>(op.value));
}

template <class T>
void add(const Add& op, const KernelContext&) {
  for (std::int64_t i = 0; i < op.x.elements(); ++i) op.y.data<T>()[i] += op.x.data<T>()[i];
}

template <class T>
void cast(const Cast& op, const KernelContext&) {
  const auto set = [&](const auto& x_at) {
    for (std::int64_t i = 0; i < op.x.elements(); ++i) op.y.data<T>()[i] = static_cast<T>(x_at(i));
  };
  if (op.x.dtype() == DType::float64)
    set([x = op.x.data<double>()](std::int64_t i) { return x[i]; });
  else if (op.x.dtype() == DType::float32)
    set([x = op.x.data<float>()](std::int64_t i) { return x[i]; });
  else
    set([x = op.x.data<bfloat16>()](std::int64_t i) { return static_cast<float>(x[i]); });
}

template <class T>
void register_for(Backend& backend) {
  backend.set<SwapAxes>(dtype_of<T>, swap_axes<T>);
  backend.set<Fill>(dtype_of<T>, fill<T>);
  backend.set<Add>(dtype_of<T>, add<T>);
  backend.set<Cast>(dtype_of<T>, cast<T>);
}

}  // namespace

void register_layout(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
