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
void register_for(Backend& backend) {
  backend.set<SoftmaxCrossEntropy>(dtype_of<T>, softmax_cross_entropy<T>);
}

}  // namespace

void register_cross_entropy(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
