#include "kernels/ops/optimizers/optimizer.h"

#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/optimizers/segment_pieces.h"
#include "kernels/cpu/rows.h"

COMERA_CPU_BEGIN

namespace {
using NormPieces = SegmentPieces<1>;

struct AdamFactors {
  float scale, beta1, rest1, beta2, rest2, correction1, correction2, eps, rate, decay;
};

// body(begin, count) for the ranges within [begin, begin + count) of a segment that lie in marked rows: all
// of it if the segment has no marks.
template <class Body>
void for_touched(const ParameterSegment& segment, const Tensor& marks, std::int64_t begin, std::int64_t count,
                 const Body& body) {
  if (segment.width == 0) return body(begin, count);
  const std::int32_t* mark = marks.data<std::int32_t>() + segment.marks;
  for (std::int64_t row = begin / segment.width, end = begin + count; row * segment.width < end; ++row) {
    if (mark[row] == 0) continue;
    const std::int64_t from = std::max(begin, row * segment.width);
    body(from, std::min(end, (row + 1) * segment.width) - from);
  }
}

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

// Ids are distinct, so that threads never write the same mark.
void touch_rows(const TouchRows& op, const KernelContext&) {
  const auto* ids = op.ids.data<std::int32_t>();
  auto* marks = op.marks.data<std::int32_t>();
  for_flat_pieces(*op.count.data<std::int32_t>(), [&](std::int64_t begin, std::int64_t count) {
    for (std::int64_t u = begin; u < begin + count; ++u) marks[ids[u]] = 1;
  });
}

void clear_touched_rows(const ClearTouchedRows& op, const KernelContext&) {
  const std::int64_t width = op.gradient.dim(1);
  for_flat_pieces(op.gradient.dim(0), [&](std::int64_t begin, std::int64_t count) {
    auto* marks = op.marks.data<std::int32_t>();
    for (std::int64_t row = begin; row < begin + count; ++row) {
      if (marks[row] == 0) continue;
      std::fill_n(op.gradient.data<float>() + row * width, width, 0.F);
      marks[row] = 0;
    }
  });
}

std::size_t gradient_norm_scratch(const GradientNorm& op) {
  return NormPieces::bytes(op.gradients.elements(), op.segment_count());
}

void gradient_norm(const GradientNorm& op, const KernelContext& context) {
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  auto& results = *static_cast<StepResults*>(op.results.raw());
  const NormPieces pieces(op.segments, op.segment_count(), context);
  pieces.for_each([&](NormPieces::Piece& piece, const ParameterSegment& segment) {
    const float* gradient = op.gradients.data<float>() + segment.offset;
    piece.sum[0] = 0;
    for_touched(segment, op.marks, piece.begin, piece.count, [&](std::int64_t begin, std::int64_t count) {
      piece.sum[0] += sum_of_squares(gradient + begin, count);
    });
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
      for_touched(segment, op.marks, from - segment.offset, to - from,
                  [&](std::int64_t at, std::int64_t some) {
                    adamw_stretch(op, own, segment.offset + at, segment.moments + at, some);
                  });
    }
  });
}

void average_parameters(const AverageParameters& op, const KernelContext&) {
  const auto weight =
      static_cast<float>(static_cast<const StepInputs*>(op.step_inputs.raw())->average_weight);
  if (static_cast<const StepResults*>(op.results.raw())->nonfinite != 0) return;
  for_flat_pieces(op.parameters.elements(), [&](std::int64_t begin, std::int64_t count) {
    const float* parameters = op.parameters.data<float>() + begin;
    float* average = op.average.data<float>() + begin;
    for_columns(0, count, [&](std::int64_t c, auto at) {
      const vec p = at.load(parameters + c), a = at.load(average + c);
      at.store(average + c, p != 0.F ? a + (p - a) * weight : splat(0));
    });
  });
}

COMERA_CPU_END
