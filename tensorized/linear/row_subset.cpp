#include "tensorized/linear/row_subset.h"

#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/gather.h"

namespace comera {

void gather(const Context& context, const RowSubset& rows, const Tensor& x, const Tensor& y) {
  run(context, GatherRows{.x = x, .indices = rows.indices, .count = rows.count, .y = y});
}

void scatter(const Context& context, const RowSubset& rows, const Tensor& dy, const Tensor& dx) {
  run(context, ScatterRows{.dy = dy, .indices = rows.indices, .count = rows.count, .dx = dx});
}

}  // namespace comera
