// Gathers rows of a matrix, and the gradients.

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/elementwise/gather.h"

namespace comera::COMERA_CUDA {

namespace {

template <class T>
struct GatheredRows {
  const T* x;
  const std::int32_t *indices, *count;
  std::int64_t width;
  T* y;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t row = i / width;
    Values<V> value{};
    if (row < *count) value = load<V>(x + indices[row] * width + i % width);
    store(y + i, value);
  }
};

template <class T>
void gather_rows(const GatherRows& op, const KernelContext& context) {
  each(context.stream,
       GatheredRows<T>{op.x.data<T>(), ints(op.indices), ints(op.count), op.y.dim(1), op.y.data<T>()},
       op.y.elements(), op.y.dim(1));
}

template <class T>
struct ScatteredRows {
  const T* dy;
  const std::int32_t *indices, *count;
  std::int64_t width;
  T* dx;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t row = i / width;
    if (row < *count) store(dx + indices[row] * width + i % width, load<V>(dy + i));
  }
};

template <class T>
void scatter_rows(const ScatterRows& op, const KernelContext& context) {
  COMERA_CUDA_CALL(cudaMemsetAsync(op.dx.raw(), 0, op.dx.bytes(), stream_of(context.stream)));
  each(context.stream,
       ScatteredRows<T>{op.dy.data<T>(), ints(op.indices), ints(op.count), op.dy.dim(1), op.dx.data<T>()},
       op.dy.elements(), op.dy.dim(1));
}

template <class T>
void register_for(Backend& backend) {
  backend.set<GatherRows>(dtype_of<T>, gather_rows<T>);
  backend.set<ScatterRows>(dtype_of<T>, scatter_rows<T>);
}

}  // namespace

void register_gather(Backend& backend, bool /*tf32*/) {
  register_for<float>(backend);
  register_for<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
