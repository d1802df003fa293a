#include "training/ranks/dense_layers.h"

#include "kernels/core/check.h"

namespace comera {

DenseLayers::DenseLayers(const StepEngine& engine) {
  const ParameterStore& store = engine.model().parameters();
  for (ParameterId id = 0; id < store.size(); ++id)
    parameters_[store.info(id).name] = read_tensor(store.value(id), store.allocator());
  for (auto& [name, matrix] : engine.model().dense_matrices()) parameters_[name] = std::move(matrix);
  for (const ParameterState& state : engine.states())
    states_[{store.info(state.parameter).name, state.name}] = read_tensor(state.values, store.allocator());
}

void DenseLayers::write(const StepEngine& engine) const {
  const ParameterStore& store = engine.model().parameters();
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    const auto found = parameters_.find(info.name);
    COMERA_CHECK(found != parameters_.end() && std::ssize(found->second) == info.shape.elements(),
                 "{} of the dense model has no counterpart among the tensor trains", info.name);
    write_tensor(store.value(id), found->second, store.allocator());
  }
  for (const ParameterState& state : engine.states())
    if (const auto found = states_.find({store.info(state.parameter).name, state.name});
        found != states_.end())
      write_tensor(state.values, found->second, store.allocator());
}

}  // namespace comera
