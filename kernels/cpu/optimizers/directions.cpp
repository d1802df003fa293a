#include "kernels/ops/optimizers/directions.h"

#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/optimizers/segment_pieces.h"
#include "kernels/cpu/rows.h"

COMERA_CPU_BEGIN

namespace {

// Sums of the squares of parameters and of directions.
using DirectionPieces = SegmentPieces<2>;
using DirectionPiece = DirectionPieces::Piece;

}  // namespace

std::size_t adam_direction_scratch(const AdamDirection& op) {
  return DirectionPieces::bytes(op.elements, op.segment_count);
}

void adam_direction(const AdamDirection& op, const KernelContext& context) {
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  const auto& results = *static_cast<const StepResults*>(op.results.raw());
  if (results.nonfinite != 0) return;
  const auto scale = static_cast<float>(results.gradient_scale), eps = static_cast<float>(op.eps);
  const auto beta1 = static_cast<float>(op.beta1), rest1 = static_cast<float>(1 - op.beta1);
  const auto beta2 = static_cast<float>(op.beta2), rest2 = static_cast<float>(1 - op.beta2);
  const auto correction1 = static_cast<float>(inputs.bias_correction1);
  const auto correction2 = static_cast<float>(inputs.bias_correction2);
  const float root2 = std::sqrt(correction2);
  DirectionPieces(op.segments, op.segment_count, context)
      .for_each([&](const DirectionPiece& piece, const ParameterSegment& segment) {
        float* d = op.directions.data<float>() + segment.offset + piece.begin;
        float* first = op.moment1.data<float>() + segment.moments + piece.begin;
        float* second = op.moment2.data<float>() + segment.moments + piece.begin;
        for_columns(0, piece.count, [&](std::int64_t c, auto at) {
          const vec g = at.load(d + c) * scale;
          const vec m = at.load(first + c) * beta1 + g * rest1;
          const vec v = at.load(second + c) * beta2 + g * g * rest2;
          at.store(first + c, m);
          at.store(second + c, v);
          at.store(d + c, op.eps_before_correction ? m * root2 / correction1 / (sqrt(v) + eps)
                                                   : m / correction1 / (sqrt(v / correction2) + eps));
        });
      });
}

std::size_t trust_ratios_scratch(const TrustRatios& op) {
  return DirectionPieces::bytes(op.elements, op.segment_count());
}

void trust_ratios(const TrustRatios& op, const KernelContext& context) {
  if (static_cast<const StepResults*>(op.results.raw())->nonfinite != 0) return;
  const DirectionPieces pieces(op.segments, op.segment_count(), context);
  pieces.for_each([&](DirectionPiece& piece, const ParameterSegment& segment) {
    const float* p = op.parameters.data<float>() + segment.offset + piece.begin;
    float* d = op.directions.data<float>() + segment.offset + piece.begin;
    const float decay = segment.decays != 0 ? static_cast<float>(op.weight_decay) : 0;
    if (decay != 0)
      for_columns(0, piece.count,
                  [&](std::int64_t c, auto at) { at.store(d + c, at.load(d + c) + at.load(p + c) * decay); });
    piece.sum = {sum_of_squares(p, piece.count), sum_of_squares(d, piece.count)};
  });
  pieces.for_each_segment([&](std::int64_t s, const std::array<double, 2>& squares) {
    const bool either = squares[0] == 0 || squares[1] == 0;
    op.ratios.data<double>()[s] = either ? 1 : std::sqrt(squares[0]) / std::sqrt(squares[1]);
  });
}

std::size_t follow_directions_scratch(const FollowDirections& op) {
  return DirectionPieces::bytes(op.elements, op.segment_count());
}

void follow_directions(const FollowDirections& op, const KernelContext& context) {
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  if (static_cast<const StepResults*>(op.results.raw())->nonfinite != 0) return;
  DirectionPieces(op.segments, op.segment_count(), context)
      .for_each([&](const DirectionPiece& piece, const ParameterSegment& segment) {
        const double rate = inputs.learning_rate[segment.group];
        const auto step = static_cast<float>(rate * op.factors.data<double>()[piece.segment]);
        const auto decay = static_cast<float>(segment.decays != 0 ? rate * op.weight_decay : 0);
        float* p = op.parameters.data<float>() + segment.offset + piece.begin;
        const float* d = op.directions.data<float>() + segment.offset + piece.begin;
        for_columns(0, piece.count, [&](std::int64_t c, auto at) {
          const vec moved = at.load(p + c) - at.load(d + c) * step;
          at.store(p + c, moved - moved * decay);
        });
      });
}

COMERA_CPU_END
