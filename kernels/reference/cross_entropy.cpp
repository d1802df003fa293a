#include <algorithm>
#include <cmath>

#include "kernels/ops/elementwise/cross_entropy.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class T>
void softmax_cross_entropy(const SoftmaxCrossEntropy& op, const KernelContext&) {
  const std::int64_t rows = op.logits.dim(1), inner = op.logits.dim(2), padded = op.logits.dim(0) * inner;
  const std::int32_t count = *op.count.data<std::int32_t>();
  StepResults& results = *static_cast<StepResults*>(op.results.raw());
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto logit = [&](std::int64_t c) -> T& {
      return op.logits.data<T>()[(c / inner * rows + r) * inner + c % inner];
    };
    if (op.row_begin + r >= count) {
      for (std::int64_t c = 0; op.gradient && c < padded; ++c) logit(c) = 0;
      continue;
    }
    const std::int64_t target = op.targets.data<std::int32_t>()[op.row_begin + r];
    std::int64_t best = 0;
    for (std::int64_t c = 0; c < op.classes; ++c) {
      if (op.bias) logit(c) += op.bias.data<T>()[c];
      if (logit(c) > logit(best)) best = c;
    }
    const T largest = logit(best), target_logit = logit(target);
    T sum = 0;
    for (std::int64_t c = 0; c < op.classes; ++c) sum += std::exp(logit(c) - largest);
    const T weight = op.weights ? static_cast<T>(op.weights.data<float>()[op.row_begin + r]) : T{1};
    results.loss_sum += weight * (largest + std::log(sum) - target_logit);
    results.target_count += weight;
    results.correct += best == target ? 1 : 0;
    if (!op.gradient) continue;
    for (std::int64_t c = 0; c < padded; ++c) {
      if (c >= op.classes) {
        logit(c) = 0;
        continue;
      }
      logit(c) = weight * (std::exp(logit(c) - largest) / sum - (c == target ? 1 : 0));
      if (op.bias) op.dbias.data<T>()[c] += logit(c);
    }
  }
}

template <class T>
void softmax_divergence(const SoftmaxDivergence& op, const KernelContext&) {
  const std::int64_t rows = op.logits.dim(1), inner = op.logits.dim(2), padded = op.logits.dim(0) * inner;
  const std::int32_t count = *op.count.data<std::int32_t>();
  const T t = static_cast<T>(op.temperature);
  // log Σ exp of the classes' values
  const auto log_sum = [&](const auto& value) {
    T largest = value(0), sum = 0;
    for (std::int64_t c = 1; c < op.classes; ++c) largest = std::max(largest, value(c));
    for (std::int64_t c = 0; c < op.classes; ++c) sum += std::exp(value(c) - largest);
    return largest + std::log(sum);
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto logit = [&](std::int64_t c) -> T& {
      return op.logits.data<T>()[(c / inner * rows + r) * inner + c % inner];
    };
    const bool real = op.row_begin + r < count;
    for (std::int64_t c = real ? op.classes : 0; op.gradient && c < padded; ++c) logit(c) = 0;
    if (!real) continue;
    const T* teacher = op.teacher.data<T>() + (op.row_begin + r) * op.classes;
    const auto own = [&](std::int64_t c) { return (logit(c) + (op.bias ? op.bias.data<T>()[c] : T{0})) / t; };
    const auto taught = [&](std::int64_t c) { return teacher[c] / t; };
    const T of_own = log_sum(own), of_taught = log_sum(taught);
    double loss = 0;
    for (std::int64_t c = 0; c < op.classes; ++c) {
      const T log_q = own(c) - of_own, log_p = taught(c) - of_taught, p = std::exp(log_p);
      if (p != 0) loss += static_cast<double>(p * (log_p - log_q));
      if (!op.gradient) continue;
      logit(c) = static_cast<T>(op.factor) * t * (std::exp(log_q) - p);
      if (op.bias) op.dbias.data<T>()[c] += logit(c);
    }
    auto& results = *static_cast<StepResults*>(op.results.raw());
    results.loss_sum += op.factor * op.temperature * op.temperature * loss;
    results.target_count += op.counts ? 1 : 0;
  }
}

template <class T>
void draw_classes(const DrawClasses& op, const KernelContext&) {
  const std::int64_t rows = op.logits.dim(1), inner = op.logits.dim(2);
  const DropoutKey key = static_cast<const StepInputs*>(op.step_inputs.raw())->dropout;
  for (std::int64_t r = 0; r < rows && op.row_begin + r < *op.count.data<std::int32_t>(); ++r) {
    const auto z = [&](std::int64_t c) {
      return op.logits.data<T>()[(c / inner * rows + r) * inner + c % inner] +
             (op.bias ? op.bias.data<T>()[c] : T{0});
    };
    T largest = z(0), total = 0, sum = 0;
    for (std::int64_t c = 1; c < op.classes; ++c) largest = std::max(largest, z(c));
    for (std::int64_t c = 0; c < op.classes; ++c) total += std::exp(z(c) - largest);
    const T part = static_cast<T>(uniform_of_row(key, op.site, op.row_begin + r)) * total;
    std::int64_t drawn = 0;
    while (drawn + 1 < op.classes && (sum += std::exp(z(drawn) - largest)) <= part) ++drawn;
    op.drawn.data<std::int32_t>()[op.row_begin + r] = static_cast<std::int32_t>(drawn);
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<DrawClasses>(dtype_of<T>, draw_classes<T>);
  backend.set<SoftmaxCrossEntropy>(dtype_of<T>, softmax_cross_entropy<T>);
  backend.set<SoftmaxDivergence>(dtype_of<T>, softmax_divergence<T>);
}

}  // namespace

void register_cross_entropy(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
