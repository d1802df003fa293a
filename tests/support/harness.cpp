#include "tests/support/harness.h"
#include "tests/support/largest.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace comera::test {

Harness::Harness(const Backend& backend, std::size_t bytes)
    : arena_(host_allocator(), {.saved = bytes, .scratch = bytes, .total = bytes}),
      context_{backend, arena_, Stream{}},
      inputs_(host_allocator(), sizeof(StepInputs), MemoryKind::workspace),
      results_(host_allocator(), sizeof(StepResults), MemoryKind::workspace) {
  inputs() = StepInputs{};
  results() = StepResults{};
}

Tensor Harness::tensor(Shape shape, DType dtype) {
  buffers_.emplace_back(host_allocator(), shape.elements() * size_of(dtype), MemoryKind::workspace);
  return buffers_.back().tensor(shape, dtype);
}

Tensor Harness::tensor(Shape shape, DType dtype, const std::vector<double>& values) {
  const Tensor result = tensor(shape, dtype);
  write_tensor(result, values);
  return result;
}

Tensor Harness::random(Shape shape, DType dtype, double deviation) {
  std::vector<double> values = normal_values(shape.elements(), ++draws_);
  for (double& value : values) value *= deviation;
  return tensor(shape, dtype, values);
}

Tensor Harness::integers(const std::vector<int>& values) {
  const Tensor result = tensor({static_cast<std::int64_t>(values.size())}, DType::int32);
  std::ranges::copy(values, result.data<std::int32_t>());
  return result;
}

std::vector<double> normal_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(count);
  for (double& value : values) value = normal(engine);
  return values;
}

double finite_difference_error(const Tensor& values, const Tensor& gradient,
                               const std::function<double()>& loss, int samples, double step) {
  double* data = values.data<double>();
  const std::vector<double> analytic = read_tensor(gradient);
  const std::int64_t count = values.elements();
  double largest = 0, error = 0;
  for (int s = 0; s < std::min<std::int64_t>(samples, count); ++s) {
    const std::int64_t i = samples >= count ? s : (s * (count - 1)) / (samples - 1);
    const double kept = data[i];
    data[i] = kept + step;
    const double above = loss();
    data[i] = kept - step;
    const double below = loss();
    data[i] = kept;
    const double numeric = (above - below) / (2 * step);
    error = larger_or_nan(error, std::abs(numeric - analytic[i]));
    largest = larger_or_nan(largest, std::abs(numeric));
  }
  return error / larger_or_nan(largest, 1e-2);
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  if (a.size() != b.size() || !std::isfinite(difference)) return INFINITY;
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

}  // namespace comera::test
