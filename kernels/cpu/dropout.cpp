#include "kernels/ops/dropout.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

void dropout(const Dropout& op, const KernelContext&) {
  const std::int64_t elements = op.x.elements();
  const DropoutRows mask(op, elements);
  for_flat_pieces(elements, [&](std::int64_t begin, std::int64_t count) {
    const float* x = op.x.data<float>() + begin;
    float* y = op.y.data<float>() + begin;
    mask.for_each(begin, count, [&](std::int64_t c, vec multiplier, auto at) {
      at.store(y + c, at.load(x + c) * multiplier);
    });
  });
}

COMERA_CPU_END
