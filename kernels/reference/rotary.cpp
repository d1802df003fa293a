#include "kernels/ops/elementwise/rotary.h"

#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class T>
void rotary(const Rotary& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1), size = op.size(), half = size / 2;
  for (std::int64_t t = 0; t < op.x.dim(0); ++t) {
    const T* turns = op.turns.data<T>() + op.position_ids.data<std::int32_t>()[t] * size;
    for (std::int64_t h = 0; h < width / size; ++h) {
      T* x = op.x.data<T>() + t * width + h * size;
      for (std::int64_t i = 0; i < half; ++i) {
        const T a = x[i], b = x[i + half], cosine = turns[i],
                sine = op.backward ? -turns[i + half] : turns[i + half];
        x[i] = a * cosine - b * sine;
        x[i + half] = b * cosine + a * sine;
      }
    }
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<Rotary>(dtype_of<T>, rotary<T>);
}

}  // namespace

void register_rotary(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
