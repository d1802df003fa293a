#include "kernels/ops/directions.h"

#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

namespace {

// A fixed stretch of one segment, and the sums over it.
struct DirectionPiece {
  std::int64_t segment = 0, begin = 0, count = 0;  // begin: within the segment
  double parameter_squares = 0, direction_squares = 0;
};

std::size_t bytes_of_pieces(std::int64_t elements, std::int64_t segments) {
  return static_cast<std::size_t>(elements / flat_piece + segments) * sizeof(DirectionPiece);
}

const ParameterSegment* segments_of(const Tensor& segments) {
  return static_cast<const ParameterSegment*>(segments.raw());
}

// Cuts the segments into pieces and calls body(piece, segment) for each, on all threads. Returns how many.
template <class Body>
std::int64_t for_pieces(DirectionPiece* pieces, const ParameterSegment* segments, std::int64_t segment_count,
                        const Body& body) {
  std::int64_t count = 0;
  for (std::int64_t s = 0; s < segment_count; ++s)
    for (std::int64_t at = 0; at < segments[s].count; at += flat_piece)
      pieces[count++] = {s, at, std::min(flat_piece, segments[s].count - at)};
  parallel_pieces(count, thread_limit(),
                  [&](std::int64_t i, int) { body(pieces[i], segments[pieces[i].segment]); });
  return count;
}

DirectionPiece* pieces_in(const KernelContext& context) {
  return reinterpret_cast<DirectionPiece*>(context.scratch);
}

}  // namespace

std::size_t adam_direction_scratch(const AdamDirection& op) {
  return bytes_of_pieces(op.elements, op.segment_count);
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
  for_pieces(pieces_in(context), segments_of(op.segments), op.segment_count,
             [&](const DirectionPiece& piece, const ParameterSegment& segment) {
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
  return bytes_of_pieces(op.elements, op.segment_count());
}

void trust_ratios(const TrustRatios& op, const KernelContext& context) {
  if (static_cast<const StepResults*>(op.results.raw())->nonfinite != 0) return;
  DirectionPiece* pieces = pieces_in(context);
  const std::int64_t count =
      for_pieces(pieces, segments_of(op.segments), op.segment_count(),
                 [&](DirectionPiece& piece, const ParameterSegment& segment) {
                   const float* p = op.parameters.data<float>() + segment.offset + piece.begin;
                   float* d = op.directions.data<float>() + segment.offset + piece.begin;
                   const float decay = segment.decays != 0 ? static_cast<float>(op.weight_decay) : 0;
                   if (decay != 0)
                     for_columns(0, piece.count, [&](std::int64_t c, auto at) {
                       at.store(d + c, at.load(d + c) + at.load(p + c) * decay);
                     });
                   piece.parameter_squares = sum_of_squares(p, piece.count);
                   piece.direction_squares = sum_of_squares(d, piece.count);
                 });
  for (std::int64_t i = 0, s = 0; s < op.segment_count(); ++s) {
    double parameter_squares = 0, direction_squares = 0;
    for (; i < count && pieces[i].segment == s; ++i) {
      parameter_squares += pieces[i].parameter_squares;
      direction_squares += pieces[i].direction_squares;
    }
    const bool either = parameter_squares == 0 || direction_squares == 0;
    op.ratios.data<double>()[s] = either ? 1 : std::sqrt(parameter_squares) / std::sqrt(direction_squares);
  }
}

std::size_t follow_directions_scratch(const FollowDirections& op) {
  return bytes_of_pieces(op.elements, op.segment_count());
}

void follow_directions(const FollowDirections& op, const KernelContext& context) {
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  if (static_cast<const StepResults*>(op.results.raw())->nonfinite != 0) return;
  for_pieces(pieces_in(context), segments_of(op.segments), op.segment_count(),
             [&](const DirectionPiece& piece, const ParameterSegment& segment) {
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
