#include <algorithm>

#include "kernels/ops/elementwise/gather.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class T>
void gather_rows(const GatherRows& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1);
  const std::int32_t count = *op.count.data<std::int32_t>();
  for (std::int64_t i = 0; i < op.y.dim(0); ++i)
    for (std::int64_t j = 0; j < width; ++j)
      op.y.data<T>()[i * width + j] =
          i < count ? op.x.data<T>()[op.indices.data<std::int32_t>()[i] * width + j] : 0;
}

template <class T>
void scatter_rows(const ScatterRows& op, const KernelContext&) {
  const std::int64_t width = op.dx.dim(1);
  const std::int32_t count = *op.count.data<std::int32_t>();
  T* dx = op.dx.data<T>();
  for (std::int64_t i = 0; i < op.dx.elements(); ++i) dx[i] = 0;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(count, op.dy.dim(0)); ++i)
    for (std::int64_t j = 0; j < width; ++j)
      dx[op.indices.data<std::int32_t>()[i] * width + j] = op.dy.data<T>()[i * width + j];
}

template <class T>
void register_for(Backend& backend) {
  backend.set<GatherRows>(dtype_of<T>, gather_rows<T>);
  backend.set<ScatterRows>(dtype_of<T>, scatter_rows<T>);
}

}  // namespace

void register_gather(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
