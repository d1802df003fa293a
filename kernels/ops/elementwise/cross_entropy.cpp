#include "kernels/ops/elementwise/cross_entropy.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

void check_logits(const char* name, const Tensor& logits, std::int64_t classes) {
  COMERA_CHECK(logits.shape().dims() == 3, "{}: logits must be (outer, rows, inner), not {}", name,
               logits.shape().text());
  const std::int64_t padded = logits.dim(0) * logits.dim(2);
  COMERA_CHECK(classes >= 1 && classes <= padded, "{}: {} classes do not fit {} columns", name, classes,
               padded);
}

}  // namespace

void SoftmaxCrossEntropy::check() const {
  const char* name = "SoftmaxCrossEntropy";
  check_logits(name, logits, classes);
  check_optional(name, "bias", bias, {classes}, master_of(compute()));
  if (bias && gradient) check_tensor(name, "dbias", dbias, {classes}, master_of(compute()));
  COMERA_CHECK(row_begin >= 0 && row_begin + logits.dim(1) <= targets.elements(),
               "{}: rows {}..{} of {} targets", name, row_begin, row_begin + logits.dim(1),
               targets.elements());
  check_elements(name, "targets", targets, targets.elements(), DType::int32);
  if (weights) check_elements(name, "weights", weights, targets.elements(), DType::float32);
  check_elements(name, "count", count, 1, DType::int32);
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const SoftmaxCrossEntropy& op) {
  return {0, (op.gradient ? 2 : 1) * once(op.logits) + once(op.bias) + twice(op.dbias)};
}

void SoftmaxDivergence::check() const {
  const char* name = "SoftmaxDivergence";
  check_logits(name, logits, classes);
  COMERA_CHECK(temperature > 0, "{}: the temperature must be above 0, not {}", name, temperature);
  check_optional(name, "bias", bias, {classes}, master_of(compute()));
  if (bias && gradient) check_tensor(name, "dbias", dbias, {classes}, master_of(compute()));
  COMERA_CHECK(row_begin >= 0 && row_begin + logits.dim(1) <= teacher.dim(0),
               "{}: rows {}..{} of {} of the teacher", name, row_begin, row_begin + logits.dim(1),
               teacher.dim(0));
  check_tensor(name, "teacher", teacher, {teacher.dim(0), classes}, master_of(compute()));
  check_elements(name, "count", count, 1, DType::int32);
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const SoftmaxDivergence& op) {
  const double rows = static_cast<double>(op.logits.dim(1)) / static_cast<double>(op.teacher.dim(0));
  return {
      0, (op.gradient ? 2 : 1) * once(op.logits) + rows * once(op.teacher) + once(op.bias) + twice(op.dbias)};
}

void DrawClasses::check() const {
  const char* name = "DrawClasses";
  check_logits(name, logits, classes);
  check_optional(name, "bias", bias, {classes}, master_of(compute()));
  check_elements(name, "drawn", drawn, drawn.elements(), DType::int32);
  COMERA_CHECK(row_begin >= 0 && row_begin + logits.dim(1) <= drawn.elements(), "{}: rows {}..{} of {}", name,
               row_begin, row_begin + logits.dim(1), drawn.elements());
  check_elements(name, "count", count, 1, DType::int32);
  check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
}

Work work_of(const DrawClasses& op) { return {0, once(op.logits) + once(op.bias)}; }

void DenseMaskedCrossEntropy::check() const {
  const char* name = "DenseMaskedCrossEntropy";
  const std::int64_t rows = h.dim(0), width = h.dim(1), classes = table.dim(0);
  check_tensor(name, "h", h, {rows, width}, compute());
  check_tensor(name, "table", table, {classes, width}, compute());
  check_tensor(name, "bias", bias, {classes}, master_of(compute()));
  check_tensor(name, "targets", targets, {rows}, DType::int32);
  check_elements(name, "count", count, 1, DType::int32);
  check_step_values(name, "results", results, sizeof(StepResults));
  if (!gradient) return;
  check_tensor(name, "dtable", dtable, table.shape(), master_of(compute()));
  check_tensor(name, "dbias", dbias, bias.shape(), master_of(compute()));
  check_tensor(name, "dh", dh, h.shape(), compute());
}

Work work_of(const DenseMaskedCrossEntropy& op) {
  const double logits = product(op.h.dim(0), op.table.dim(0), op.table.dim(1));
  return {(op.gradient ? 3 : 1) * logits, once(op.h, op.table, op.bias, op.dh) + twice(op.dtable, op.dbias)};
}

void TTMMaskedCrossEntropy::check() const {
  const char* name = "TTMMaskedCrossEntropy";
  COMERA_CHECK(left.shape().dims() == 3 && right.shape().dims() == 3,
               "{}: the left and right factors must be (L, nl, rank) and (nr, rank, R), not {} and {}", name,
               left.shape().text(), right.shape().text());
  const std::int64_t rows = h.dim(0), width = left.dim(1) * right.dim(0);
  check_tensor(name, "h", h, {rows, width}, compute());
  check_tensor(name, "left", left, left.shape(), compute());
  check_tensor(name, "right", right, {right.dim(0), left.dim(2), right.dim(2)}, compute());
  check_tensor(name, "bias", bias, {bias.dim(0)}, master_of(compute()));
  COMERA_CHECK(bias.dim(0) <= left.dim(0) * right.dim(2), "{}: {} classes for {} rows", name, bias.dim(0),
               left.dim(0) * right.dim(2));
  check_tensor(name, "targets", targets, {rows}, DType::int32);
  check_elements(name, "count", count, 1, DType::int32);
  check_step_values(name, "results", results, sizeof(StepResults));
  if (!gradient) return;
  check_tensor(name, "dleft", dleft, left.shape(), master_of(compute()));
  check_tensor(name, "dright", dright, right.shape(), master_of(compute()));
  check_tensor(name, "dbias", dbias, bias.shape(), master_of(compute()));
  check_tensor(name, "dh", dh, h.shape(), compute());
}

Work work_of(const TTMMaskedCrossEntropy& op) {
  const std::int64_t rows = op.h.dim(0), right_rows = op.right.dim(2);
  const double forward = product(rows, op.right.elements() * op.left.dim(1), 1) +
                         product(rows, op.left.elements() * right_rows, 1);
  return {(op.gradient ? 3 : 1) * forward,
          once(op.h, op.left, op.right, op.bias, op.dh) + twice(op.dleft, op.dright, op.dbias)};
}

}  // namespace comera
