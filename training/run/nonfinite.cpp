#include "training/run/nonfinite.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/core/tensors/finite.h"

namespace comera {

LargestParameter largest_parameter(const ParameterStore& store) {
  LargestParameter largest;
  for (ParameterId id = 0; id < store.size(); ++id)
    for (const double value : read_tensor(store.value(id), store.allocator()))
      if (std::abs(value) > largest.magnitude) largest = {std::abs(value), store.info(id).name};
  return largest;
}

std::string nonfinite_parameter(const ParameterStore& store) {
  const auto id = find_nonfinite(store, store.all_values());
  return id ? store.info(*id).name : std::string();
}

std::string nonfinite_numbers(StepEngine& engine) {
  const ParameterStore& store = engine.model().parameters();
  if (std::string name = nonfinite_parameter(store); !name.empty()) return name;
  for (const ParameterState& state : engine.states())
    if (!all_finite(HostCopy(store.allocator(), state.values).read().tensor()))
      return fmt::format("the moment {} of {}", state.name, store.info(state.parameter).name);
  return "";
}

std::string first_nonfinite(StepEngine& engine) {
  const StepResults& results = engine.results();
  if (std::isfinite(results.loss_sum) && results.first_nonfinite >= 0)
    return engine.optimizer().first_nonfinite(results) + "'s gradient";
  const LargestParameter largest = largest_parameter(engine.model().parameters());
  return fmt::format("the loss (the largest parameter is {:.3g}, in {})", largest.magnitude, largest.name);
}

std::string divergence(const ParameterStore& store, double gates, const std::string& rate_key) {
  constexpr double longest_step = 0.5, largest = 1000;  // gates begin near 1, other parameters below it
  const LargestParameter parameter = largest_parameter(store);
  if (gates < longest_step && parameter.magnitude < largest) return "";
  return fmt::format(
      "the model has diverged (a step moves a gate by up to {}, and the largest parameter is {:.3g}, in {}): "
      "use a lower {}",
      gates, parameter.magnitude, parameter.name, rate_key);
}

}  // namespace comera
