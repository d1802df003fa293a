#include "training/ranks/grown_model.h"

#include "kernels/core/check.h"
#include "recipes/phase_recipe.h"

namespace comera {

GrownModel::GrownModel(const StepEngine& engine, bool dense, std::int64_t blocks) : blocks_(blocks) {
  const ParameterStore& store = engine.model().parameters();
  for (ParameterId id = 0; id < store.size(); ++id)
    parameters_[store.info(id).name] = read_tensor(store.value(id), store.allocator());
  if (dense)
    for (auto& [name, matrix] : engine.model().dense_matrices()) parameters_[name] = std::move(matrix);
  for (const ParameterState& state : engine.states())
    states_[{store.info(state.parameter).name, state.name}] = read_tensor(state.values, store.allocator());
}

std::string GrownModel::source_of(const std::string& parameter) const {
  const auto block = find_block(parameter);
  return block ? block->renamed(parameter, block->number % blocks_) : parameter;
}

void GrownModel::write(const StepEngine& engine) const {
  const ParameterStore& store = engine.model().parameters();
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    const auto found = parameters_.find(source_of(info.name));
    COMERA_CHECK(found != parameters_.end() && std::ssize(found->second) == info.shape.elements(),
                 "{} of the grown model has no counterpart in the one before", info.name);
    write_tensor(store.value(id), found->second, store.allocator());
  }
  for (const ParameterState& state : engine.states())
    if (const auto found = states_.find({source_of(store.info(state.parameter).name), state.name});
        found != states_.end())
      write_tensor(state.values, found->second, store.allocator());
}

}  // namespace comera
