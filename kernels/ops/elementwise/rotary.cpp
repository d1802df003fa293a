#include "kernels/ops/elementwise/rotary.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void Rotary::check() const {
  const char* name = "Rotary";
  check_tensor(name, "turns", turns, {turns.dim(0), size()}, master_of(compute()));
  COMERA_CHECK(size() >= 2 && size() % 2 == 0, "{}: heads of {} numbers are no pairs", name, size());
  COMERA_CHECK(x.dim(1) % size() == 0, "{}: width {} is no multiple of a head's {}", name, x.dim(1), size());
  check_tensor(name, "x", x, x.shape(), compute());
  check_tensor(name, "position_ids", position_ids, {x.dim(0)}, DType::int32);
}

// Rows of the table are counted once per token.
Work work_of(const Rotary& op) {
  return {0, twice(op.x) + once(op.position_ids) + bytes_of(op.x.dim(0) * op.size(), op.turns.dtype())};
}

}  // namespace comera
