#include "tensorized/linear.h"

#include <cmath>

#include "tensorized/dense_linear.h"
#include "tensorized/tt_linear_layer.h"

namespace comera {

void Linear::add_bias(ParameterStore& store, int i) {
  biases_.push_back(store.add(
      {.name = output_name(i) + ".bias",
       .role = ParameterRole::dense,
       .shape = {spec_.output_size},
       .decays = false,
       .initializer = {Initializer::Kind::uniform, 1 / std::sqrt(static_cast<double>(spec_.output_size))}}));
}

std::unique_ptr<Linear> make_linear(ParameterStore& store, const Linear::Spec& spec,
                                    const std::vector<TTShape>& shapes, PlanKind plan) {
  COMERA_CHECK(!spec.outputs.empty() && spec.outputs.size() <= max_group_outputs,
               "{}: {} outputs, expected 1 to {}", spec.name, spec.outputs.size(), max_group_outputs);
  if (!shapes.empty()) return std::make_unique<TTLinear>(store, spec, shapes, plan);
  return std::make_unique<DenseLinear>(store, spec);
}

}  // namespace comera
