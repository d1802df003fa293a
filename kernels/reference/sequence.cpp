#include "kernels/ops/elementwise/sequence.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/reference_backend.h"
#include "kernels/shared/step_values.h"

namespace comera::reference {

namespace {

template <class T>
void sequence_mean(const SequenceMean& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1);
  const std::int32_t count = *op.count.data<std::int32_t>(), *offsets = op.offsets.data<std::int32_t>();
  for (std::int64_t s = 0; s < op.y.dim(0); ++s) {
    T* y = op.y.data<T>() + s * width;
    std::fill_n(y, width, T{0});
    if (s >= count) continue;
    for (std::int64_t t = offsets[s]; t < offsets[s + 1]; ++t)
      for (std::int64_t j = 0; j < width; ++j) y[j] += op.x.data<T>()[t * width + j];
    const T share = T{1} / static_cast<T>(std::max(offsets[s + 1] - offsets[s], 1));
    for (std::int64_t j = 0; j < width; ++j) y[j] *= share;
  }
}

template <class T>
void sequence_mean_backward(const SequenceMeanBackward& op, const KernelContext&) {
  const std::int64_t width = op.dx.dim(1);
  const std::int32_t count = *op.count.data<std::int32_t>(), *offsets = op.offsets.data<std::int32_t>();
  std::int64_t t = 0;
  for (std::int32_t s = 0; s < count; ++s) {
    const T share = T{1} / static_cast<T>(std::max(offsets[s + 1] - offsets[s], 1));
    for (; t < offsets[s + 1]; ++t)
      for (std::int64_t j = 0; j < width; ++j)
        op.dx.data<T>()[t * width + j] = op.dy.data<T>()[s * width + j] * share;
  }
  std::fill(op.dx.data<T>() + t * width, op.dx.data<T>() + op.dx.elements(), T{0});
}

template <class T>
void pair_features_forward(const PairFeaturesForward& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1), pairs = op.y.dim(0);
  const std::int32_t count = *op.count.data<std::int32_t>();
  for (std::int64_t e = 0; e < pairs; ++e) {
    const T *u = op.x.data<T>() + 2 * e * width, *v = u + width;
    T* y = op.y.data<T>() + 4 * e * width;
    for (std::int64_t j = 0; j < width; ++j) {
      y[j] = e < count ? u[j] : T{0};
      y[width + j] = e < count ? v[j] : T{0};
      y[2 * width + j] = e < count ? std::abs(u[j] - v[j]) : T{0};
      y[3 * width + j] = e < count ? u[j] * v[j] : T{0};
    }
  }
}

template <class T>
void pair_features_backward(const PairFeaturesBackward& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1);
  const std::int32_t count = *op.count.data<std::int32_t>();
  std::fill_n(op.dx.data<T>(), op.dx.elements(), T{0});
  for (std::int64_t e = 0; e < std::min<std::int64_t>(count, op.dy.dim(0)); ++e) {
    const T *u = op.x.data<T>() + 2 * e * width, *v = u + width;
    const T* dy = op.dy.data<T>() + 4 * e * width;
    T *du = op.dx.data<T>() + 2 * e * width, *dv = du + width;
    for (std::int64_t j = 0; j < width; ++j) {
      const T sign = u[j] > v[j] ? T{1} : u[j] < v[j] ? T{-1} : T{0};
      du[j] = dy[j] + sign * dy[2 * width + j] + v[j] * dy[3 * width + j];
      dv[j] = dy[width + j] - sign * dy[2 * width + j] + u[j] * dy[3 * width + j];
    }
  }
}

template <class T>
void squared_error(const SquaredError& op, const KernelContext&) {
  const std::int32_t count = *op.count.data<std::int32_t>();
  StepResults& results = *static_cast<StepResults*>(op.results.raw());
  T* predictions = op.predictions.data<T>();
  for (std::int64_t s = 0; s < op.predictions.dim(0); ++s) {
    const T difference = s < count ? predictions[s] - static_cast<T>(op.scores.data<float>()[s]) : T{0};
    results.loss_sum += static_cast<double>(difference) * static_cast<double>(difference);
    results.target_count += s < count ? 1 : 0;
    if (op.gradient) predictions[s] = 2 * difference;
  }
}

template <class T>
void squared_distance(const SquaredDistance& op, const KernelContext&) {
  const auto count = std::min<std::int64_t>(*op.count.data<std::int32_t>(), op.x.dim(0));
  const std::int64_t width = op.x.dim(1);
  const double factor = count > 0 ? op.factor * *op.targets.data<std::int32_t>() /
                                        static_cast<double>(op.square ? count * count : count)
                                  : 0;
  T* x = op.x.data<T>();
  double sum = 0;
  for (std::int64_t i = 0; i < op.x.elements(); ++i) {
    const T difference = i < count * width ? x[i] - op.to.data<T>()[i] : T{0};
    sum += static_cast<double>(difference) * static_cast<double>(difference);
    if (op.gradient) x[i] = static_cast<T>(2 * factor * static_cast<double>(difference));
  }
  auto& results = *static_cast<StepResults*>(op.results.raw());
  results.loss_sum += factor * sum;
  if (op.counts) results.target_count += *op.targets.data<std::int32_t>();
}

template <class T>
void relation_divergence(const RelationDivergence& op, const KernelContext&) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1), taught = op.y.dim(1);
  const auto count = std::min<std::int64_t>(*op.count.data<std::int32_t>(), rows);
  const double weight =
      count > 0 ? op.factor * *op.targets.data<std::int32_t>() / static_cast<double>(count) : 0;
  double loss = 0;
  for (std::int64_t t = 0; t < count; ++t) {
    for (std::int64_t j = 0; j < taught; ++j)
      loss += op.taught_scale * static_cast<double>(op.y.data<T>()[t * taught + j]) *
              static_cast<double>(op.taught_attended.data<T>()[t * taught + j]);
    for (std::int64_t j = 0; j < width; ++j)
      loss -= op.scale * static_cast<double>(op.x.data<T>()[t * width + j]) *
              static_cast<double>(op.attended.data<T>()[t * width + j]);
    for (std::int64_t h = 0; h < op.log_sums.dim(0); ++h)
      loss -= static_cast<double>(op.taught_log_sums.data<T>()[h * rows + t]) -
              static_cast<double>(op.log_sums.data<T>()[h * rows + t]);
  }
  auto& results = *static_cast<StepResults*>(op.results.raw());
  results.loss_sum += weight * loss;
  if (op.counts) results.target_count += *op.targets.data<std::int32_t>();
  if (!op.gradient) return;
  T* dx = op.own_attended.data<T>();
  for (std::int64_t i = 0; i < rows * width; ++i)
    dx[i] = i < count * width ? static_cast<T>(weight * op.scale) *
                                    (dx[i] - op.attended.data<T>()[i] + op.own_turned.data<T>()[i] -
                                     op.taught_turned.data<T>()[i])
                              : T{0};
}

template <class T>
void register_for(Backend& backend) {
  backend.set<SequenceMean>(dtype_of<T>, sequence_mean<T>);
  backend.set<SequenceMeanBackward>(dtype_of<T>, sequence_mean_backward<T>);
  backend.set<PairFeaturesForward>(dtype_of<T>, pair_features_forward<T>);
  backend.set<PairFeaturesBackward>(dtype_of<T>, pair_features_backward<T>);
  backend.set<SquaredError>(dtype_of<T>, squared_error<T>);
  backend.set<SquaredDistance>(dtype_of<T>, squared_distance<T>);
  backend.set<RelationDivergence>(dtype_of<T>, relation_divergence<T>);
}

}  // namespace

void register_sequence(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
