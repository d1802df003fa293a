#include "kernels/ops/elementwise/sequence.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

namespace {
// 1 where a > b, -1 where a < b, 0 where they are equal or one is not a number.
inline vec sign_of_difference(vec a, vec b) {
  return (a > b ? splat(1) : splat(0)) - (a < b ? splat(1) : splat(0));
}

std::int64_t count_of(const Tensor& count) { return *count.data<std::int32_t>(); }

template <class T>
void clear(T* x, std::int64_t count) {
  std::fill_n(x, std::max<std::int64_t>(count, 0), T(0.F));
}
}  // namespace

template <class T>
void sequence_mean(const SequenceMean& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1), count = count_of(op.count);
  const auto* offsets = op.offsets.data<std::int32_t>();
  parallel_pieces(op.y.dim(0), thread_limit(), [&](std::int64_t s, int) {
    T* y = op.y.data<T>() + s * width;
    if (s >= count) return clear(y, width);
    const std::int32_t length = offsets[s + 1] - offsets[s];
    const T* x = op.x.data<T>() + offsets[s] * width;
    const float share = 1.F / static_cast<float>(std::max(length, 1));
    for_columns(0, width, [&](std::int64_t c, auto at) {
      vec total = splat(0);
      for (std::int64_t t = 0; t < length; ++t) total += at.load(x + t * width + c);
      at.store(y + c, total * share);
    });
  });
}

template <class T>
void sequence_mean_backward(const SequenceMeanBackward& op, const KernelContext&) {
  const std::int64_t width = op.dx.dim(1);
  const std::int64_t count = std::min(count_of(op.count), op.offsets.elements() - 1);
  const auto* offsets = op.offsets.data<std::int32_t>();
  parallel_pieces(count, thread_limit(), [&](std::int64_t s, int) {
    const T* dy = op.dy.data<T>() + s * width;
    const float share = 1.F / static_cast<float>(std::max(offsets[s + 1] - offsets[s], 1));
    for (std::int64_t t = offsets[s]; t < offsets[s + 1]; ++t) {
      T* dx = op.dx.data<T>() + t * width;
      for_columns(0, width, [&](std::int64_t c, auto at) { at.store(dx + c, at.load(dy + c) * share); });
    }
  });
  const std::int64_t used = count > 0 ? offsets[count] * width : 0;
  clear(op.dx.data<T>() + used, op.dx.elements() - used);
}

template <class T>
void pair_features_forward(const PairFeaturesForward& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1), pairs = op.y.dim(0), count = count_of(op.count);
  for (std::int64_t e = 0; e < pairs; ++e) {
    const T *u = op.x.data<T>() + 2 * e * width, *v = u + width;
    T* y = op.y.data<T>() + 4 * e * width;
    if (e >= count) {
      clear(y, 4 * width);
      continue;
    }
    for_columns(0, width, [&](std::int64_t c, auto at) {
      const vec a = at.load(u + c), b = at.load(v + c);
      at.store(y + c, a);
      at.store(y + width + c, b);
      at.store(y + 2 * width + c, abs(a - b));
      at.store(y + 3 * width + c, a * b);
    });
  }
}

template <class T>
void pair_features_backward(const PairFeaturesBackward& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1), count = std::min(count_of(op.count), op.dy.dim(0));
  for (std::int64_t e = 0; e < count; ++e) {
    const T *u = op.x.data<T>() + 2 * e * width, *v = u + width;
    const T* dy = op.dy.data<T>() + 4 * e * width;
    T *du = op.dx.data<T>() + 2 * e * width, *dv = du + width;
    for_columns(0, width, [&](std::int64_t c, auto at) {
      const vec a = at.load(u + c), b = at.load(v + c), product = at.load(dy + 3 * width + c);
      const vec difference = sign_of_difference(a, b) * at.load(dy + 2 * width + c);
      at.store(du + c, at.load(dy + c) + difference + b * product);
      at.store(dv + c, at.load(dy + width + c) - difference + a * product);
    });
  }
  const std::int64_t used = std::max<std::int64_t>(count, 0) * 2 * width;
  clear(op.dx.data<T>() + used, op.dx.elements() - used);
}

template <class T>
void squared_error(const SquaredError& op, const KernelContext&) {
  const std::int64_t count = count_of(op.count);
  auto& results = *static_cast<StepResults*>(op.results.raw());
  T* predictions = op.predictions.data<T>();
  for (std::int64_t s = 0; s < op.predictions.dim(0); ++s) {
    const float difference =
        s < count ? static_cast<float>(predictions[s]) - op.scores.data<float>()[s] : 0.F;
    results.loss_sum += static_cast<double>(difference) * static_cast<double>(difference);
    results.target_count += s < count ? 1 : 0;
    if (op.gradient) predictions[s] = T(2 * difference);
  }
}

std::size_t squared_distance_scratch(const SquaredDistance& op) {
  Scratch scratch;
  scratch.floats(2 * op.x.dim(0));
  return scratch.bytes();
}

template <class T>
void squared_distance(const SquaredDistance& op, const KernelContext& context) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1), count = std::min(count_of(op.count), rows);
  const double items = static_cast<double>(op.square ? count * count : count);
  const double factor = count > 0 ? op.factor * static_cast<double>(count_of(op.targets)) / items : 0;
  Scratch scratch(context.scratch);
  auto* sums = reinterpret_cast<double*>(scratch.floats(2 * rows));  // of each row
  parallel_pieces(rows, thread_limit(), [&](std::int64_t r, int) {
    T* x = op.x.data<T>() + r * width;
    const T* to = op.to.data<T>() + r * width;
    sums[r] = 0;
    if (r >= count) {
      if (op.gradient) clear(x, width);
      return;
    }
    const auto slope = static_cast<float>(2 * factor);
    dvec total = {};
    for_columns(0, width, [&](std::int64_t c, auto at) {
      const vec difference = at.keep(at.load(x + c) - at.load(to + c));
      const dvec wide = widen(difference);
      total += wide * wide;
      if (op.gradient) at.store(x + c, difference * slope);
    });
    sums[r] = sum(total);
  });
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r) total += sums[r];
  auto& results = *static_cast<StepResults*>(op.results.raw());
  results.loss_sum += factor * total;
  if (op.counts) results.target_count += static_cast<double>(count_of(op.targets));
}

std::size_t relation_divergence_scratch(const RelationDivergence& op) {
  Scratch scratch;
  scratch.floats(2 * op.x.dim(0));
  return scratch.bytes();
}

// The sum of the products of two rows.
template <class T>
double dot(const T* a, const T* b, std::int64_t width) {
  dvec total = {};
  for_columns(0, width, [&](std::int64_t c, auto at) {
    total += widen(at.keep(at.load(a + c))) * widen(at.keep(at.load(b + c)));
  });
  return sum(total);
}

template <class T>
void relation_divergence(const RelationDivergence& op, const KernelContext& context) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1), taught = op.y.dim(1),
                     heads = op.log_sums.dim(0), count = std::min(count_of(op.count), rows);
  const double weight =
      count > 0 ? op.factor * static_cast<double>(count_of(op.targets)) / static_cast<double>(count) : 0;
  Scratch scratch(context.scratch);
  auto* sums = reinterpret_cast<double*>(scratch.floats(2 * rows));  // of each row
  parallel_pieces(rows, thread_limit(), [&](std::int64_t t, int) {
    T* dx = op.gradient ? op.own_attended.data<T>() + t * width : nullptr;
    sums[t] = 0;
    if (t >= count) {
      if (op.gradient) clear(dx, width);
      return;
    }
    const T *x = op.x.data<T>() + t * width, *attended = op.attended.data<T>() + t * width;
    const T *y = op.y.data<T>() + t * taught, *taught_attended = op.taught_attended.data<T>() + t * taught;
    double loss = op.taught_scale * dot(y, taught_attended, taught) - op.scale * dot(x, attended, width);
    for (std::int64_t h = 0; h < heads; ++h)
      loss -= static_cast<double>(op.taught_log_sums.data<float>()[h * rows + t]) -
              static_cast<double>(op.log_sums.data<float>()[h * rows + t]);
    sums[t] = loss;
    if (!op.gradient) return;
    const T *own_turned = op.own_turned.data<T>() + t * width,
            *taught_turned = op.taught_turned.data<T>() + t * width;
    const auto slope = static_cast<float>(weight * op.scale);
    for_columns(0, width, [&](std::int64_t c, auto at) {
      const vec difference =
          (at.load(dx + c) - at.load(attended + c)) + (at.load(own_turned + c) - at.load(taught_turned + c));
      at.store(dx + c, difference * slope);
    });
  });
  double total = 0;
  for (std::int64_t t = 0; t < rows; ++t) total += sums[t];
  auto& results = *static_cast<StepResults*>(op.results.raw());
  results.loss_sum += weight * total;
  if (op.counts) results.target_count += static_cast<double>(count_of(op.targets));
}

COMERA_FOR_EACH_TYPE(SequenceMean, sequence_mean)
COMERA_FOR_EACH_TYPE(SequenceMeanBackward, sequence_mean_backward)
COMERA_FOR_EACH_TYPE(PairFeaturesForward, pair_features_forward)
COMERA_FOR_EACH_TYPE(PairFeaturesBackward, pair_features_backward)
COMERA_FOR_EACH_TYPE(SquaredError, squared_error)
COMERA_FOR_EACH_TYPE(SquaredDistance, squared_distance)
COMERA_FOR_EACH_TYPE(RelationDivergence, relation_divergence)

COMERA_CPU_END
