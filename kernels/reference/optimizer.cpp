#include "kernels/ops/optimizers/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class T>
void touch_rows(const TouchRows& op, const KernelContext&) {
  for (std::int32_t u = 0; u < *op.count.data<std::int32_t>(); ++u)
    op.marks.data<std::int32_t>()[op.ids.data<std::int32_t>()[u]] = 1;
}

template <class T>
void clear_touched_rows(const ClearTouchedRows& op, const KernelContext&) {
  const std::int64_t width = op.gradient.dim(1);
  for (std::int64_t r = 0; r < op.gradient.dim(0); ++r) {
    std::int32_t& mark = op.marks.data<std::int32_t>()[r];
    if (mark != 0) std::fill_n(op.gradient.data<T>() + r * width, width, T(0));
    mark = 0;
  }
}

bool is_idle(const ParameterSegment& segment, const Tensor& marks, std::int64_t i) {
  return segment.width > 0 && marks.data<std::int32_t>()[segment.marks + i / segment.width] == 0;
}

template <class T>
void gradient_norm(const GradientNorm& op, const KernelContext&) {
  constexpr std::int64_t piece = 16384;  // the optimised kernel sums the same pieces, on several threads
  const auto* segments = static_cast<const ParameterSegment*>(op.segments.raw());
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  auto& results = *static_cast<StepResults*>(op.results.raw());
  double total = 0;
  results.nonfinite = 0;
  results.first_nonfinite = -1;
  for (std::int64_t s = 0; s < op.segment_count(); ++s) {
    double norm = 0;
    for (std::int64_t begin = 0; begin < segments[s].count; begin += piece) {
      double sum = 0;
      const T* g = op.gradients.data<T>() + segments[s].offset;
      for (std::int64_t i = begin; i < std::min(begin + piece, segments[s].count); ++i)
        if (!is_idle(segments[s], op.marks, i)) sum += static_cast<double>(g[i]) * g[i];
      norm += sum;
    }
    op.norms.data<double>()[s] = norm;
    total += norm;
    if (!std::isfinite(norm) && results.nonfinite == 0) {
      results.nonfinite = 1;
      results.first_nonfinite = s;
    }
  }
  if (!std::isfinite(results.loss_sum)) results.nonfinite = 1;
  // Without targets there is no gradient: the step only decays the moments.
  const double per_target = inputs.targets > 0 ? 1 / inputs.targets : 0;
  results.gradient_norm = std::sqrt(total) * per_target;
  results.gradient_scale = per_target;
  if (inputs.max_norm > 0 && results.gradient_norm > inputs.max_norm)
    results.gradient_scale *= inputs.max_norm / results.gradient_norm;
  for (std::int64_t s = 0; s < op.segment_count() && results.nonfinite == 0; ++s)
    if (op.norms.data<double>()[s] * results.gradient_scale * results.gradient_scale > most_squared_norm)
      results.nonfinite = 1, results.first_nonfinite = s;
}

template <class T>
void adamw(const AdamW& op, const KernelContext&) {
  const auto* segments = static_cast<const ParameterSegment*>(op.segments.raw());
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  const auto& results = *static_cast<const StepResults*>(op.results.raw());
  if (results.nonfinite != 0) return;
  for (std::int64_t s = 0; s < op.segment_count; ++s) {
    const T rate = static_cast<T>(inputs.learning_rate[segments[s].group]);
    const T decay = static_cast<T>(segments[s].decays ? op.weight_decay : 0);
    for (std::int64_t j = 0; j < segments[s].count; ++j) {
      if (is_idle(segments[s], op.marks, j)) continue;
      const std::int64_t i = segments[s].offset + j, state = segments[s].moments + j;
      T &p = op.parameters.data<T>()[i], &m = op.moment1.data<T>()[state], &v = op.moment2.data<T>()[state];
      const T g = op.gradients.data<T>()[i] * static_cast<T>(results.gradient_scale);
      m = static_cast<T>(op.beta1) * m + static_cast<T>(1 - op.beta1) * g;
      v = static_cast<T>(op.beta2) * v + static_cast<T>(1 - op.beta2) * g * g;
      const T mean = m / static_cast<T>(inputs.bias_correction1);
      const T root = std::sqrt(v / static_cast<T>(inputs.bias_correction2));
      p -= rate * (mean / (root + static_cast<T>(op.eps)) + decay * p);
    }
  }
}

template <class T>
void average_parameters(const AverageParameters& op, const KernelContext&) {
  const T weight = static_cast<T>(static_cast<const StepInputs*>(op.step_inputs.raw())->average_weight);
  if (static_cast<const StepResults*>(op.results.raw())->nonfinite != 0) return;
  for (std::int64_t i = 0; i < op.parameters.elements(); ++i) {
    const T p = op.parameters.data<T>()[i];
    T& a = op.average.data<T>()[i];
    a = p == 0 ? 0 : a + weight * (p - a);
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<TouchRows>(dtype_of<T>, touch_rows<T>);
  backend.set<ClearTouchedRows>(dtype_of<T>, clear_touched_rows<T>);
  backend.set<GradientNorm>(dtype_of<T>, gradient_norm<T>);
  backend.set<AdamW>(dtype_of<T>, adamw<T>);
  backend.set<AverageParameters>(dtype_of<T>, average_parameters<T>);
}

}  // namespace

void register_optimizer(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
