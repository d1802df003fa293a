#include "kernels/ops/elementwise/sequence.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"
#include "kernels/shared/step_values.h"

namespace comera {

void SequenceMean::check() const {
  const char* name = "SequenceMean";
  check_tensor(name, "x", x, {x.dim(0), x.dim(1)}, compute());
  check_tensor(name, "y", y, {y.dim(0), x.dim(1)}, compute());
  check_elements(name, "offsets", offsets, y.dim(0) + 1, DType::int32);
  check_elements(name, "count", count, 1, DType::int32);
}

Work work_of(const SequenceMean& op) { return {0, once(op.x, op.y)}; }

void SequenceMeanBackward::check() const {
  const char* name = "SequenceMeanBackward";
  check_tensor(name, "dy", dy, {dy.dim(0), dy.dim(1)}, compute());
  check_tensor(name, "dx", dx, {dx.dim(0), dy.dim(1)}, compute());
  check_elements(name, "offsets", offsets, dy.dim(0) + 1, DType::int32);
  check_elements(name, "count", count, 1, DType::int32);
}

Work work_of(const SequenceMeanBackward& op) { return {0, once(op.dy, op.dx)}; }

void PairFeaturesForward::check() const {
  const char* name = "PairFeaturesForward";
  check_tensor(name, "x", x, {x.dim(0), x.dim(1)}, compute());
  check_elements(name, "count", count, 1, DType::int32);
  check_tensor(name, "y", y, {x.dim(0) / 2, 4 * x.dim(1)}, compute());
}

Work work_of(const PairFeaturesForward& op) { return {0, once(op.x, op.y)}; }

void PairFeaturesBackward::check() const {
  const char* name = "PairFeaturesBackward";
  check_tensor(name, "x", x, {x.dim(0), x.dim(1)}, compute());
  check_elements(name, "count", count, 1, DType::int32);
  check_tensor(name, "dy", dy, {x.dim(0) / 2, 4 * x.dim(1)}, compute());
  check_tensor(name, "dx", dx, x.shape(), compute());
}

Work work_of(const PairFeaturesBackward& op) { return {0, once(op.x, op.dy, op.dx)}; }

void SquaredError::check() const {
  const char* name = "SquaredError";
  check_tensor(name, "predictions", predictions, {predictions.dim(0), 1}, compute());
  check_elements(name, "scores", scores, predictions.dim(0), DType::float32);
  check_elements(name, "count", count, 1, DType::int32);
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const SquaredError& op) { return {0, (op.gradient ? 2 : 1) * once(op.predictions)}; }

void SquaredDistance::check() const {
  const char* name = "SquaredDistance";
  check_tensor(name, "x", x, {x.dim(0), x.dim(1)}, compute());
  check_tensor(name, "to", to, x.shape(), compute());
  check_elements(name, "count", count, 1, DType::int32);
  check_elements(name, "targets", targets, 1, DType::int32);
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const SquaredDistance& op) { return {0, (op.gradient ? 2 : 1) * once(op.x) + once(op.to)}; }

void RelationDivergence::check() const {
  const char* name = "RelationDivergence";
  const DType master = master_of(compute());
  check_tensor(name, "x", x, {x.dim(0), x.dim(1)}, compute());
  check_tensor(name, "y", y, {x.dim(0), y.dim(1)}, compute());
  check_tensor(name, "attended", attended, x.shape(), compute());
  check_tensor(name, "taught_attended", taught_attended, y.shape(), compute());
  check_tensor(name, "log_sums", log_sums, {log_sums.dim(0), x.dim(0)}, master);
  check_tensor(name, "taught_log_sums", taught_log_sums, log_sums.shape(), master);
  if (gradient) {
    check_tensor(name, "own_attended", own_attended, x.shape(), compute());
    check_tensor(name, "own_turned", own_turned, x.shape(), compute());
    check_tensor(name, "taught_turned", taught_turned, x.shape(), compute());
  }
  check_elements(name, "count", count, 1, DType::int32);
  check_elements(name, "targets", targets, 1, DType::int32);
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const RelationDivergence& op) {
  return {0, once(op.x, op.y, op.attended, op.taught_attended, op.log_sums, op.taught_log_sums) +
                 (op.gradient ? 2 * once(op.own_attended) + once(op.own_turned, op.taught_turned) : 0)};
}

}  // namespace comera
