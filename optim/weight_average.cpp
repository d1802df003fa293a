#include "optim/weight_average.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/ops/optimizers/optimizer.h"

namespace comera {

WeightAverage::WeightAverage(ParameterStore& store, double decay)
    : store_(store),
      decay_(decay),
      memory_(store.allocator(), store.values().bytes(), MemoryKind::optimizer),
      average_(memory_.tensor(store.values().shape(), store.dtype())) {
  begin();
}

void WeightAverage::begin() {
  HostCopy parameters(store_.allocator(), store_.values()), average(store_.allocator(), average_);
  std::memcpy(average.tensor().raw(), parameters.read().tensor().raw(), average_.bytes());
  average.write();
}

void WeightAverage::prepare(StepInputs& inputs, std::int64_t update) const {
  inputs.average_weight = (1 - decay_) / (1 - std::pow(decay_, static_cast<double>(update + 1)));
}

void WeightAverage::follow(const Context& context, const Tensor& step_inputs,
                           const Tensor& step_results) const {
  run(context, AverageParameters{.parameters = store_.values(),
                                 .average = average_,
                                 .step_inputs = step_inputs,
                                 .results = step_results});
}

void WeightAverage::exchange() {
  HostCopy parameters(store_.allocator(), store_.values()), average(store_.allocator(), average_);
  auto* of_parameters = static_cast<std::byte*>(parameters.read().tensor().raw());
  auto* of_average = static_cast<std::byte*>(average.read().tensor().raw());
  std::swap_ranges(of_parameters, of_parameters + average_.bytes(), of_average);
  parameters.write();
  average.write();
}

std::vector<ParameterState> WeightAverage::states() const {
  std::vector<ParameterState> states;
  for (ParameterId id = 0; id < store_.size(); ++id)
    if (!store_.is_frozen(id))
      states.push_back({id, "weights", average_.slice(store_.offset(id), store_.info(id).shape)});
  return states;
}

}  // namespace comera
