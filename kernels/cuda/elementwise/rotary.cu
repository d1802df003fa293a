// Rotates pairs of elements of queries and keys by angles that grow with the position.

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/elementwise/rotary.h"

namespace comera::COMERA_CUDA {

namespace {

// i is an index into rows x heads x halves of heads.
template <class T>
struct TurnedHeads {
  T* x;
  const std::int32_t* position_ids;
  const float* turns;
  std::int64_t heads, half;
  float direction;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t column = i % half, head = i / half;  // head: over all rows
    const float* cosines = turns + position_ids[head / heads] * 2 * half + column;
    T *first = x + head * 2 * half + column, *second = first + half;
    const Values<V> a = load<V>(first), b = load<V>(second), cosine = load<V>(cosines),
                    sine = load<V>(cosines + half);
    Values<V> turned_a, turned_b;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      turned_a.at[k] = a.at[k] * cosine.at[k] - b.at[k] * sine.at[k] * direction;
      turned_b.at[k] = b.at[k] * cosine.at[k] + a.at[k] * sine.at[k] * direction;
    }
    store(first, turned_a);
    store(second, turned_b);
  }
};

template <class T>
void rotary(const Rotary& op, const KernelContext& context) {
  const std::int64_t half = op.size() / 2;
  each(context.stream,
       TurnedHeads<T>{op.x.data<T>(), ints(op.position_ids), op.turns.data<float>(), op.x.dim(1) / op.size(),
                      half, op.backward ? -1.F : 1.F},
       op.x.elements() / 2, half);
}

template <class T>
void register_for(Backend& backend) {
  backend.set<Rotary>(dtype_of<T>, rotary<T>);
}

}  // namespace

void register_rotary(Backend& backend, bool /*tf32*/) {
  register_for<float>(backend);
  register_for<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
