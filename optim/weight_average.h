#pragma once

#include <vector>

#include "kernels/core/tensors/parameter.h"
#include "kernels/core/tensors/parameter_state.h"
#include "kernels/ops/context.h"
#include "kernels/shared/step_values.h"

namespace comera {

// An exponential moving average of the trained parameters after every update, in their type:
//   a(t) = sum over i = 1..t of (1 - d) d^(t - i) p(i), divided by 1 - d^t,
// which is corrected as Adam's moments are (Kingma and Ba, 2015, section 3): the initial weights, p(0), have
// no part in it. Computed as a += w (p - a) with w = (1 - d) / (1 - d^t), which is 1 after the first update.
class WeightAverage {
 public:
  // decay: d, in (0, 1). The store must be allocated, and outlive this object.
  WeightAverage(ParameterStore& store, double decay);

  // Before the first update the parameters are their own average.
  void begin();
  // Fills in the weight of this update, counted from 0.
  void prepare(StepInputs& inputs, std::int64_t update) const;
  // After an update, and after pruning. Nothing changes if StepResults::nonfinite is set.
  void follow(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const;
  // Puts the averages in place of the parameters, and the parameters in theirs. Waits for the device; not
  // within a step.
  void exchange();

  // "weights" of each trained parameter: the average, or after exchange() the parameter itself. Checkpoints
  // are written and read after exchange(), so that their parameters are the averages.
  std::vector<ParameterState> states() const;

 private:
  ParameterStore& store_;
  double decay_;
  Buffer memory_;
  Tensor average_;
};

}  // namespace comera
