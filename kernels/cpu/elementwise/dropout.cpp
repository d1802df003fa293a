#include "kernels/ops/elementwise/dropout.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

template <class T>
void dropout(const Dropout& op, const KernelContext&) {
  const std::int64_t elements = op.x.elements();
  const DropoutRows mask(op, elements);
  for_flat_pieces(elements, [&](std::int64_t begin, std::int64_t count) {
    const T* x = op.x.data<T>() + begin;
    T* y = op.y.data<T>() + begin;
    mask.for_each(begin, count, [&](std::int64_t c, vec multiplier, auto at) {
      at.store(y + c, at.load(x + c) * multiplier);
    });
  });
}

COMERA_FOR_EACH_TYPE(Dropout, dropout)

COMERA_CPU_END
