#include "kernels/ops/sequence.h"

#include <algorithm>

#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/shared/step_values.h"

namespace comera::plain {

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

}  // namespace

void register_sequence(Backend& backend) {
  backend.set<SequenceMean>(DType::float32, sequence_mean<float>);
  backend.set<SequenceMean>(DType::float64, sequence_mean<double>);
  backend.set<SquaredError>(DType::float32, squared_error<float>);
  backend.set<SquaredError>(DType::float64, squared_error<double>);
}

}  // namespace comera::plain
