#include "optim/adamw.h"

#include <algorithm>
#include <cmath>

namespace comera {

AdamWOptimizer::AdamWOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator,
                               const std::vector<ParameterId>& updated, MomentLayout layout)
    : Optimizer(store, options, allocator), layout_(std::move(layout)), updated_(updated) {
  const std::size_t bytes = static_cast<std::size_t>(layout_.elements) * size_of(store.dtype());
  first_memory_ = Buffer(allocator, bytes, MemoryKind::optimizer);
  second_memory_ = Buffer(allocator, bytes, MemoryKind::optimizer);
  first_ = first_memory_.tensor({layout_.elements}, store.dtype());
  second_ = second_memory_.tensor({layout_.elements}, store.dtype());
  std::vector<ParameterSegment> segments;
  for (const ParameterId id : updated_) {
    segments.push_back(segment_of(store, id, options));
    segments.back().moments = layout_.offsets[id];
    elements_ += segments.back().count;
  }
  segments_ = upload_table(allocator, segments);
}

AdamWOptimizer::MomentLayout AdamWOptimizer::layout_of(const ParameterStore& store) {
  MomentLayout layout;
  for (ParameterId id = 0; id < store.size(); ++id) layout.offsets.push_back(store.offset(id));
  layout.elements = store.values().elements();
  return layout;
}

std::vector<ParameterState> AdamWOptimizer::states() const {
  std::vector<ParameterId> ids = updated_;
  std::ranges::sort(ids);
  std::vector<ParameterState> states;
  for (const ParameterId id : ids)
    for (const auto& [name, flat] : {std::pair{"m", first_}, std::pair{"v", second_}})
      states.push_back({id, name, flat.slice(layout_.offsets[id], store_.info(id).shape)});
  return states;
}

void AdamWOptimizer::update_parameters(const Context& context, const Tensor& step_inputs,
                                       const Tensor& step_results) const {
  run(context, AdamW{.parameters = store_.values(),
                     .gradients = store_.gradients(),
                     .moment1 = first_,
                     .moment2 = second_,
                     .segments = segments_.bytes,
                     .segment_count = std::ssize(updated_),
                     .elements = elements_,
                     .marks = store_.marks(),
                     .beta1 = options_.beta1,
                     .beta2 = options_.beta2,
                     .eps = options_.eps,
                     .weight_decay = options_.weight_decay,
                     .step_inputs = step_inputs,
                     .results = step_results});
}

void AdamWOptimizer::prepare(StepInputs& inputs, std::int64_t update) const {
  inputs.bias_correction1 = 1 - std::pow(options_.beta1, static_cast<double>(update + 1));
  inputs.bias_correction2 = 1 - std::pow(options_.beta2, static_cast<double>(update + 1));
}

}  // namespace comera
