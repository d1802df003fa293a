// Standalone dropout; other kernels include it.

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/elementwise/dropout.h"

namespace comera::COMERA_CUDA {

namespace {

template <class T>
struct Masked {
  const T* x;
  DropoutMask mask;
  T* y;
  static constexpr int at_once = 16;  // the elements of one Philox call

  template <int V>
  __device__ void run(std::int64_t i) const {
    Values<V> value = load<V>(x + i);
    const Values<V> factor = dropout_factors<V>(mask, i);
#pragma unroll
    for (int k = 0; k < V; ++k) value.at[k] *= factor.at[k];
    store(y + i, value);
  }
};

template <class T>
void dropout(const Dropout& op, const KernelContext& context) {
  each(context.stream, Masked<T>{op.x.data<T>(), mask_of(op.dropout, op.step_inputs), op.y.data<T>()},
       op.x.elements(), op.x.elements());
}

template <class T>
void register_for(Backend& backend) {
  backend.set<Dropout>(dtype_of<T>, dropout<T>);
}

}  // namespace

void register_dropout(Backend& backend, bool /*tf32*/) {
  register_for<float>(backend);
  register_for<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
