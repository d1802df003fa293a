#include "kernels/ops/elementwise/clicks.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/reference_backend.h"
#include "kernels/shared/step_values.h"

namespace comera::reference {

namespace {

template <class T>
void divide_bags(const DivideBags& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1);
  const std::int32_t* offsets = op.offsets.data<std::int32_t>();
  for (std::int64_t b = 0; b < op.x.dim(0); ++b) {
    const T share = T{1} / static_cast<T>(std::max(offsets[b + 1] - offsets[b], 1));
    for (std::int64_t d = 0; d < width; ++d) op.x.data<T>()[b * width + d] *= share;
  }
}

// Vector i of example b, 0 being the first.
template <class T>
T* vector_of(const Tensor& first, const Tensor& others, std::int64_t i, std::int64_t b) {
  const std::int64_t width = first.dim(1);
  return i == 0 ? first.data<T>() + b * width : others.data<T>() + ((i - 1) * first.dim(0) + b) * width;
}

template <class T>
void dot_interaction_forward(const DotInteractionForward& op, const KernelContext&) {
  const std::int64_t width = op.first.dim(1);
  for (std::int64_t b = 0; b < op.first.dim(0); ++b) {
    const auto x = [&](std::int64_t i) { return vector_of<T>(op.first, op.others, i, b); };
    T* y = std::copy_n(x(0), width, op.y.data<T>() + b * op.y.dim(1));
    for (std::int64_t i = 1; i <= op.others.dim(0); ++i)
      for (std::int64_t j = 0; j < i; ++j) {
        T sum{};
        for (std::int64_t d = 0; d < width; ++d) sum += x(i)[d] * x(j)[d];
        *y++ = sum;
      }
  }
}

template <class T>
void dot_interaction_backward(const DotInteractionBackward& op, const KernelContext&) {
  const std::int64_t width = op.first.dim(1);
  std::fill_n(op.dothers.data<T>(), op.dothers.elements(), T{0});
  for (std::int64_t b = 0; b < op.first.dim(0); ++b) {
    const auto x = [&](std::int64_t i) { return vector_of<T>(op.first, op.others, i, b); };
    const auto dx = [&](std::int64_t i) { return vector_of<T>(op.dfirst, op.dothers, i, b); };
    const T* dy = op.dy.data<T>() + b * op.dy.dim(1);
    std::copy_n(dy, width, dx(0));
    dy += width;
    for (std::int64_t i = 1; i <= op.others.dim(0); ++i)
      for (std::int64_t j = 0; j < i; ++j, ++dy)
        for (std::int64_t d = 0; d < width; ++d) {
          dx(i)[d] += *dy * x(j)[d];
          dx(j)[d] += *dy * x(i)[d];
        }
  }
}

template <class T>
void binary_cross_entropy(const BinaryCrossEntropy& op, const KernelContext&) {
  const std::int32_t count = *op.count.data<std::int32_t>();
  const double weight = op.targets ? op.factor * *op.targets.data<std::int32_t>() / std::max(count, 1) : 1;
  StepResults& results = *static_cast<StepResults*>(op.results.raw());
  T* logits = op.logits.data<T>();
  for (std::int64_t b = 0; b < op.logits.dim(0); ++b) {
    if (b >= count) {
      if (op.gradient) logits[b] = 0;
      continue;
    }
    const T z = logits[b], label = static_cast<T>(op.labels.data<float>()[b]);
    const T small = std::exp(-std::abs(z));  // to avoid overflow
    const auto loss = static_cast<double>((z > 0 ? z : 0) - z * label + std::log1p(small));
    const bool positive = label > T{0.5}, correct = (z > 0) == positive;
    if (op.targets) {
      DetectionResults& detection = results.detection;
      detection.loss_sum += loss;
      detection.weighed += weight * loss;
      detection.tokens += 1;
      detection.correct += correct ? 1 : 0;
      detection.replaced += positive ? 1 : 0;
      detection.found += positive && correct ? 1 : 0;
    } else {
      results.target_count += 1;
      results.correct += correct ? 1 : 0;
    }
    results.loss_sum += weight * loss;
    if (op.gradient) logits[b] = static_cast<T>(weight) * ((z > 0 ? 1 : small) / (1 + small) - label);
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<DivideBags>(dtype_of<T>, divide_bags<T>);
  backend.set<DotInteractionForward>(dtype_of<T>, dot_interaction_forward<T>);
  backend.set<DotInteractionBackward>(dtype_of<T>, dot_interaction_backward<T>);
  backend.set<BinaryCrossEntropy>(dtype_of<T>, binary_cross_entropy<T>);
}

}  // namespace

void register_clicks(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
