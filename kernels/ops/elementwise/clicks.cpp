#include "kernels/ops/elementwise/clicks.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"
#include "kernels/shared/step_values.h"

namespace comera {

namespace {
// (B, D + pairs of F + 1 vectors)
Shape features_of(const Tensor& others) {
  const std::int64_t count = others.dim(0);
  return {others.dim(1), others.dim(2) + count * (count + 1) / 2};
}
void check_vectors(const char* name, const Tensor& first, const Tensor& others) {
  COMERA_CHECK(others.shape().dims() == 3, "{}: others must be (F, B, D), not {}", name,
               others.shape().text());
  check_tensor(name, "first", first, {others.dim(1), others.dim(2)}, first.dtype());
  check_tensor(name, "others", others, others.shape(), first.dtype());
}
double pair_work(const Tensor& others) {
  return product(others.dim(0) * others.dim(1), others.dim(2), others.dim(0) + 1) / 2;
}
}  // namespace

void DivideBags::check() const {
  const char* name = "DivideBags";
  check_tensor(name, "x", x, {x.dim(0), x.dim(1)}, compute());
  check_elements(name, "offsets", offsets, x.dim(0) + 1, DType::int32);
}

Work work_of(const DivideBags& op) { return {0, twice(op.x)}; }

void DotInteractionForward::check() const {
  const char* name = "DotInteractionForward";
  check_vectors(name, first, others);
  check_tensor(name, "y", y, features_of(others), compute());
}

Work work_of(const DotInteractionForward& op) {
  return {pair_work(op.others), once(op.first, op.others, op.y)};
}

void DotInteractionBackward::check() const {
  const char* name = "DotInteractionBackward";
  check_vectors(name, first, others);
  check_tensor(name, "dy", dy, features_of(others), compute());
  check_tensor(name, "dfirst", dfirst, first.shape(), compute());
  check_tensor(name, "dothers", dothers, others.shape(), compute());
}

Work work_of(const DotInteractionBackward& op) {
  return {2 * pair_work(op.others), once(op.first, op.others, op.dy, op.dfirst, op.dothers)};
}

void BinaryCrossEntropy::check() const {
  const char* name = "BinaryCrossEntropy";
  check_tensor(name, "logits", logits, {logits.dim(0), 1}, compute());
  check_elements(name, "labels", labels, logits.dim(0), DType::float32);
  check_elements(name, "count", count, 1, DType::int32);
  if (targets) check_elements(name, "targets", targets, 1, DType::int32);
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const BinaryCrossEntropy& op) { return {0, (op.gradient ? 2 : 1) * once(op.logits)}; }

}  // namespace comera
