#include "kernels/ops/elementwise/layout.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void SwapAxes::check() const {
  COMERA_CHECK(x.shape().dims() == 4, "SwapAxes: x must have 4 dimensions, not {}", x.shape().text());
  check_tensor("SwapAxes", "x", x, x.shape(), compute());
  check_elements("SwapAxes", "y", y, x.elements(), compute());
}

Work work_of(const SwapAxes& op) { return {0, once(op.x, op.y)}; }

void Fill::check() const { check_elements("Fill", "x", x, x.elements(), compute()); }

Work work_of(const Fill& op) { return {0, once(op.x)}; }

void Cast::check() const {
  check_elements("Cast", "x", x, x.elements(), x.dtype());
  check_elements("Cast", "y", y, x.elements(), compute());
}

Work work_of(const Cast& op) { return {0, once(op.x, op.y)}; }

void Add::check() const {
  check_elements("Add", "x", x, x.elements(), compute());
  check_elements("Add", "y", y, x.elements(), compute());
}

Work work_of(const Add& op) { return {0, once(op.x) + twice(op.y)}; }

}  // namespace comera
