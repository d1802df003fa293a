#pragma once

#include <functional>
#include <vector>

#include "kernels/core/arena.h"
#include "kernels/core/parameter.h"
#include "kernels/ops/context.h"
#include "kernels/shared/step_values.h"

namespace comera::test {

// A backend with memory to run operations in.
class Harness {
 public:
  explicit Harness(const Backend& backend, std::size_t bytes = std::size_t{64} << 20);

  const Context& context() const { return context_; }
  Tensor step_inputs() const { return inputs_.tensor({sizeof(StepInputs)}, DType::uint8); }
  Tensor step_results() const { return results_.tensor({sizeof(StepResults)}, DType::uint8); }
  StepInputs& inputs() { return *static_cast<StepInputs*>(inputs_.data()); }
  StepResults& results() { return *static_cast<StepResults*>(results_.data()); }

  // A tensor that lives as long as the harness.
  Tensor tensor(Shape shape, DType dtype);
  Tensor tensor(Shape shape, DType dtype, const std::vector<double>& values);
  Tensor random(Shape shape, DType dtype, double deviation = 1);  // fresh normal values
  Tensor integers(const std::vector<int>& values);

 private:
  Arena arena_;
  Context context_;
  Buffer inputs_, results_;
  std::vector<Buffer> buffers_;
  std::uint64_t draws_ = 0;
};

// Normal numbers that depend only on the seed.
std::vector<double> normal_values(std::int64_t count, std::uint64_t seed);

// Largest |gradient - central difference| relative to the largest |difference| of the tensor, over `samples`
// entries spread over it. loss() is computed again with each entry moved by ± step.
double finite_difference_error(const Tensor& values, const Tensor& gradient,
                               const std::function<double()>& loss, int samples = 12, double step = 1e-5);

// ‖a - b‖ / ‖b‖
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace comera::test
