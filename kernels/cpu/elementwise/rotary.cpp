#include "kernels/ops/elementwise/rotary.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

template <class T>
void rotary(const Rotary& op, const KernelContext&) {
  constexpr std::int64_t rows_of_piece = 32;
  const std::int64_t tokens = op.x.dim(0), width = op.x.dim(1), size = op.size(), half = size / 2;
  const float direction = op.backward ? -1.F : 1.F;
  parallel_pieces((tokens + rows_of_piece - 1) / rows_of_piece, thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t end = std::min(tokens, (piece + 1) * rows_of_piece);
    for (std::int64_t t = piece * rows_of_piece; t < end; ++t) {
      const float* cosines = op.turns.data<float>() + op.position_ids.data<std::int32_t>()[t] * size;
      const float* sines = cosines + half;
      for (T* x = op.x.data<T>() + t * width; x < op.x.data<T>() + (t + 1) * width; x += size) {
        for_columns(0, half, [&](std::int64_t i, auto at) {
          const vec a = at.load(x + i), b = at.load(x + half + i);
          const vec cosine = at.load(cosines + i), sine = at.load(sines + i) * direction;
          at.store(x + i, a * cosine - b * sine);
          at.store(x + half + i, b * cosine + a * sine);
        });
      }
    }
  });
}

COMERA_FOR_EACH_TYPE(Rotary, rotary)

COMERA_CPU_END
