#include "kernels/ops/clicks.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"
#include "kernels/shared/step_values.h"

namespace comera {

namespace {
// (B, D + pairs of F vectors)
Shape features_of(const Tensor& x) {
  const std::int64_t vectors = x.dim(0);
  return {x.dim(1), x.dim(2) + vectors * (vectors - 1) / 2};
}
double pair_work(const Tensor& x) { return product(x.dim(0) * x.dim(1), x.dim(2), x.dim(0)) / 2; }
}  // namespace

void DivideBags::check() const {
  const char* name = "DivideBags";
  check_tensor(name, "x", x, {x.dim(0), x.dim(1)}, compute());
  check_elements(name, "offsets", offsets, x.dim(0) + 1, DType::int32);
}

Work work_of(const DivideBags& op) { return {0, twice(op.x)}; }

void DotInteractionForward::check() const {
  const char* name = "DotInteractionForward";
  COMERA_CHECK(x.shape().dims() == 3, "{}: x must be (F, B, D), not {}", name, x.shape().text());
  check_tensor(name, "x", x, x.shape(), compute());
  check_tensor(name, "y", y, features_of(x), compute());
}

Work work_of(const DotInteractionForward& op) { return {pair_work(op.x), once(op.x, op.y)}; }

void DotInteractionBackward::check() const {
  const char* name = "DotInteractionBackward";
  COMERA_CHECK(x.shape().dims() == 3, "{}: x must be (F, B, D), not {}", name, x.shape().text());
  check_tensor(name, "x", x, x.shape(), compute());
  check_tensor(name, "dy", dy, features_of(x), compute());
  check_tensor(name, "dx", dx, x.shape(), compute());
}

Work work_of(const DotInteractionBackward& op) { return {2 * pair_work(op.x), once(op.x, op.dy, op.dx)}; }

void BinaryCrossEntropy::check() const {
  const char* name = "BinaryCrossEntropy";
  check_tensor(name, "logits", logits, {logits.dim(0), 1}, compute());
  check_elements(name, "labels", labels, logits.dim(0), DType::float32);
  check_elements(name, "count", count, 1, DType::int32);
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const BinaryCrossEntropy& op) { return {0, (op.gradient ? 2 : 1) * once(op.logits)}; }

}  // namespace comera
