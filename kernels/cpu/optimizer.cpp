#include "kernels/ops/optimizer.h"

#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/segment_pieces.h"

COMERA_CPU_BEGIN

namespace {
using NormPieces = SegmentPieces<1>;

struct AdamFactors {
  float scale, beta1, rest1, beta2, rest2, correction1, correction2, eps, rate, decay;
};

void adamw_stretch(const AdamW& op, const AdamFactors& f, std::int64_t begin, std::int64_t state,
                   std::int64_t count) {
  float* p = op.parameters.data<float>() + begin;
  const float* gradient = op.gradients.data<float>() + begin;
  float *moment1 = op.moment1.data<float>() + state, *moment2 = op.moment2.data<float>() + state;
  for_columns(0, count, [&](std::int64_t c, auto at) {
    const vec g = at.load(gradient + c) * f.scale;
    const vec m = at.load(moment1 + c) * f.beta1 + g * f.rest1;
    const vec v = at.load(moment2 + c) * f.beta2 + g * g * f.rest2;
    const vec parameter = at.load(p + c);
    const vec step = m / f.correction1 / (sqrt(v / f.correction2) + f.eps) + parameter * f.decay;
    at.store(moment1 + c, m);
    at.store(moment2 + c, v);
    at.store(p + c, parameter - step * f.rate);
  });
}
}  // namespace

std::size_t gradient_norm_scratch(const GradientNorm& op) {
  return NormPieces::bytes(op.gradients.elements(), op.segment_count());
}

void gradient_norm(const GradientNorm& op, const KernelContext& context) {
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  auto& results = *static_cast<StepResults*>(op.results.raw());
  const NormPieces pieces(op.segments, op.segment_count(), context);
  pieces.for_each([&](NormPieces::Piece& piece, const ParameterSegment& segment) {
    piece.sum[0] = sum_of_squares(op.gradients.data<float>() + segment.offset + piece.begin, piece.count);
  });
  double total = 0;
  results.nonfinite = 0;
  results.first_nonfinite = -1;
  pieces.for_each_segment([&](std::int64_t s, const std::array<double, 1>& sum) {
    const double norm = sum[0];
    op.norms.data<double>()[s] = norm;
    total += norm;
    if (!std::isfinite(norm) && results.nonfinite == 0) {
      results.nonfinite = 1;
      results.first_nonfinite = s;
    }
  });
  if (!std::isfinite(results.loss_sum)) results.nonfinite = 1;
  const double per_target = inputs.targets > 0 ? 1 / inputs.targets : 0;
  results.gradient_norm = std::sqrt(total) * per_target;
  results.gradient_scale = per_target;
  if (inputs.max_norm > 0 && results.gradient_norm > inputs.max_norm) {
    results.gradient_scale *= inputs.max_norm / results.gradient_norm;
  }
  for (std::int64_t s = 0; s < op.segment_count() && results.nonfinite == 0; ++s)
    if (op.norms.data<double>()[s] * results.gradient_scale * results.gradient_scale > most_squared_norm)
      results.nonfinite = 1, results.first_nonfinite = s;
}

void adamw(const AdamW& op, const KernelContext&) {
  const auto* segments = static_cast<const ParameterSegment*>(op.segments.raw());
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  const auto& results = *static_cast<const StepResults*>(op.results.raw());
  if (results.nonfinite != 0) return;
  AdamFactors factors{};
  factors.scale = static_cast<float>(results.gradient_scale);
  factors.beta1 = static_cast<float>(op.beta1);
  factors.rest1 = static_cast<float>(1 - op.beta1);
  factors.rest2 = static_cast<float>(1 - op.beta2);
  factors.beta2 = static_cast<float>(op.beta2);
  factors.correction1 = static_cast<float>(inputs.bias_correction1);
  factors.correction2 = static_cast<float>(inputs.bias_correction2);
  factors.eps = static_cast<float>(op.eps);
  for_flat_pieces(op.parameters.elements(), [&](std::int64_t begin, std::int64_t count) {
    for (std::int64_t s = 0; s < op.segment_count; ++s) {
      const ParameterSegment& segment = segments[s];
      const std::int64_t from = std::max(begin, segment.offset);
      const std::int64_t to = std::min(begin + count, segment.offset + segment.count);
      if (from >= to) continue;
      AdamFactors own = factors;
      own.rate = static_cast<float>(inputs.learning_rate[segment.group]);
      own.decay = segment.decays != 0 ? static_cast<float>(op.weight_decay) : 0.F;
      adamw_stretch(op, own, from, segment.moments + from - segment.offset, to - from);
    }
  });
}

COMERA_CPU_END
