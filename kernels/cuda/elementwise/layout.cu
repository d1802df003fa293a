// Operations that move, fill, convert or add numbers.

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/elementwise/layout.h"

namespace comera::COMERA_CUDA {

namespace {

struct SwappedAxes {
  const float* x;
  std::int64_t p, q, inner;
  float* y;

  // i is an index into y: (outer, q, p, inner)
  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t c = i % inner, block = i / inner;
    const std::int64_t a = block % p, b = block / p % q, outer = block / (p * q);
    store(y + i, load<V>(x + ((outer * p + a) * q + b) * inner + c));
  }
};

void swap_axes(const SwapAxes& op, const KernelContext& context) {
  each(context.stream,
       SwappedAxes{op.x.data<float>(), op.x.dim(1), op.x.dim(2), op.x.dim(3), op.y.data<float>()},
       op.x.elements(), op.x.dim(3));
}

template <class T>
struct Filled {
  float value;
  T* x;
  template <int V>
  __device__ void run(std::int64_t i) const {
    Values<V> values;
#pragma unroll
    for (int k = 0; k < V; ++k) values.at[k] = value;
    store(x + i, values);
  }
};

template <class T>
void fill(const Fill& op, const KernelContext& context) {
  each(context.stream, Filled<T>{static_cast<float>(op.value), op.x.data<T>()}, op.x.elements(),
       op.x.elements());
}

template <class T>
struct Added {
  const T* x;
  T* y;
  template <int V>
  __device__ void run(std::int64_t i) const {
    Values<V> sum = load<V>(y + i);
    const Values<V> value = load<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.at[k] += value.at[k];
    store(y + i, sum);
  }
};

template <class T>
void add(const Add& op, const KernelContext& context) {
  each(context.stream, Added<T>{op.x.data<T>(), op.y.data<T>()}, op.x.elements(), op.x.elements());
}

template <class To, class From>
struct Converted {
  const From* x;
  To* y;
  template <int V>
  __device__ void run(std::int64_t i) const {
    store(y + i, load<V>(x + i));
  }
};

template <class To>
void cast(const Cast& op, const KernelContext& context) {
  const auto from = [&](const auto* x) {
    using From = std::remove_cvref_t<decltype(*x)>;
    each(context.stream, Converted<To, From>{x, op.y.data<To>()}, op.x.elements(), op.x.elements());
  };
  if (op.x.dtype() == DType::bfloat16)
    from(op.x.data<bfloat16>());
  else
    from(op.x.data<float>());
}

template <class T>
void register_for(Backend& backend) {
  backend.set<Fill>(dtype_of<T>, fill<T>);
  backend.set<Add>(dtype_of<T>, add<T>);
  backend.set<Cast>(dtype_of<T>, cast<T>);
}

}  // namespace

void register_layout(Backend& backend, bool /*tf32*/) {
  register_for<float>(backend);
  register_for<bfloat16>(backend);
  backend.set<SwapAxes>(DType::float32, swap_axes);
}

}  // namespace comera::COMERA_CUDA
