#include "kernels/ops/elementwise/gather.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void GatherRows::check() const {
  const char* name = "GatherRows";
  check_tensor(name, "x", x, {x.dim(0), x.dim(1)}, compute());
  check_tensor(name, "y", y, {y.dim(0), x.dim(1)}, compute());
  COMERA_CHECK(indices.elements() >= y.dim(0), "{}: {} indices for {} rows", name, indices.elements(),
               y.dim(0));
  check_elements(name, "indices", indices, indices.elements(), DType::int32);
  check_elements(name, "count", count, 1, DType::int32);
}

Work work_of(const GatherRows& op) { return {0, twice(op.y)}; }

void ScatterRows::check() const {
  const char* name = "ScatterRows";
  check_tensor(name, "dy", dy, {dy.dim(0), dy.dim(1)}, compute());
  check_tensor(name, "dx", dx, {dx.dim(0), dy.dim(1)}, compute());
  COMERA_CHECK(indices.elements() >= dy.dim(0), "{}: {} indices for {} rows", name, indices.elements(),
               dy.dim(0));
  check_elements(name, "indices", indices, indices.elements(), DType::int32);
  check_elements(name, "count", count, 1, DType::int32);
}

Work work_of(const ScatterRows& op) { return {0, once(op.dy, op.dx)}; }

}  // namespace comera
