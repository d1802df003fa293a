#include "kernels/ops/clicks.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/shared/step_values.h"

namespace comera::plain {

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

template <class T>
void dot_interaction_forward(const DotInteractionForward& op, const KernelContext&) {
  const std::int64_t vectors = op.x.dim(0), examples = op.x.dim(1), width = op.x.dim(2);
  const auto x = [&](std::int64_t i, std::int64_t b) { return op.x.data<T>() + (i * examples + b) * width; };
  for (std::int64_t b = 0; b < examples; ++b) {
    T* y = op.y.data<T>() + b * op.y.dim(1);
    y = std::copy_n(x(0, b), width, y);
    for (std::int64_t i = 0; i < vectors; ++i)
      for (std::int64_t j = 0; j < i; ++j) {
        T sum{};
        for (std::int64_t d = 0; d < width; ++d) sum += x(i, b)[d] * x(j, b)[d];
        *y++ = sum;
      }
  }
}

template <class T>
void dot_interaction_backward(const DotInteractionBackward& op, const KernelContext&) {
  const std::int64_t vectors = op.x.dim(0), examples = op.x.dim(1), width = op.x.dim(2);
  const auto at = [&](std::int64_t i, std::int64_t b) { return (i * examples + b) * width; };
  std::fill_n(op.dx.data<T>(), op.dx.elements(), T{0});
  for (std::int64_t b = 0; b < examples; ++b) {
    const T* dy = op.dy.data<T>() + b * op.dy.dim(1);
    std::copy_n(dy, width, op.dx.data<T>() + at(0, b));
    dy += width;
    for (std::int64_t i = 0; i < vectors; ++i)
      for (std::int64_t j = 0; j < i; ++j, ++dy)
        for (std::int64_t d = 0; d < width; ++d) {
          op.dx.data<T>()[at(i, b) + d] += *dy * op.x.data<T>()[at(j, b) + d];
          op.dx.data<T>()[at(j, b) + d] += *dy * op.x.data<T>()[at(i, b) + d];
        }
  }
}

template <class T>
void binary_cross_entropy(const BinaryCrossEntropy& op, const KernelContext&) {
  const std::int32_t count = *op.count.data<std::int32_t>();
  StepResults& results = *static_cast<StepResults*>(op.results.raw());
  T* logits = op.logits.data<T>();
  for (std::int64_t b = 0; b < op.logits.dim(0); ++b) {
    if (b >= count) {
      if (op.gradient) logits[b] = 0;
      continue;
    }
    const T z = logits[b], label = static_cast<T>(op.labels.data<float>()[b]);
    const T small = std::exp(-std::abs(z));  // so that nothing overflows
    results.loss_sum += static_cast<double>((z > 0 ? z : 0) - z * label + std::log1p(small));
    results.target_count += 1;
    results.correct += (z > 0) == (label > T{0.5}) ? 1 : 0;
    if (op.gradient) logits[b] = (z > 0 ? 1 : small) / (1 + small) - label;
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

}  // namespace comera::plain
