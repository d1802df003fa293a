#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/layout.h"
#include "kernels/ops/optimizer.h"

namespace comera {

static_assert(parameter_roles <= max_parameter_groups);

AdamWOptimizer::AdamWOptimizer(ParameterStore& store, const AdamWOptions& options, Allocator& allocator)
    : store_(store), options_(options) {
  const std::int64_t count = store.values().elements();
  const std::size_t bytes = store.values().bytes();
  moment1_memory_ = Buffer(allocator, bytes, MemoryKind::optimizer);
  moment2_memory_ = Buffer(allocator, bytes, MemoryKind::optimizer);
  moment1_ = moment1_memory_.tensor({count}, store.dtype());
  moment2_ = moment2_memory_.tensor({count}, store.dtype());
  const std::int64_t segments = store.size();
  segment_memory_ = Buffer(allocator, segments * sizeof(ParameterSegment), MemoryKind::optimizer);
  segments_ =
      segment_memory_.tensor({static_cast<std::int64_t>(segments * sizeof(ParameterSegment))}, DType::uint8);
  norm_memory_ = Buffer(allocator, segments * sizeof(double), MemoryKind::optimizer);
  norms_ = norm_memory_.tensor({segments}, DType::float64);
  std::vector<ParameterSegment> layout;
  for (ParameterId id : store.layout()) {
    const ParameterInfo& info = store.info(id);
    const bool decays = info.decays && (info.role == ParameterRole::dense || options.decay_cores);
    layout.push_back(
        {store.offset(id), info.shape.elements(), static_cast<std::int32_t>(info.role), decays ? 1 : 0});
  }
  allocator.upload(segments_.raw(), layout.data(), segments_.bytes(), allocator.stream());
  allocator.synchronize(allocator.stream());
}

void AdamWOptimizer::measure(const Context& context, const Tensor& step_inputs,
                             const Tensor& step_results) const {
  run(context, GradientNorm{.gradients = store_.gradients(),
                            .segments = segments_,
                            .norms = norms_,
                            .step_inputs = step_inputs,
                            .results = step_results});
}

void AdamWOptimizer::update(const Context& context, const Tensor& step_inputs,
                            const Tensor& step_results) const {
  run(context, AdamW{.parameters = store_.values(),
                     .gradients = store_.gradients(),
                     .moment1 = moment1_,
                     .moment2 = moment2_,
                     .segments = segments_,
                     .segment_count = norms_.elements(),
                     .beta1 = options_.beta1,
                     .beta2 = options_.beta2,
                     .eps = options_.eps,
                     .weight_decay = options_.weight_decay,
                     .step_inputs = step_inputs,
                     .results = step_results});
  run(context, Fill{.x = store_.gradients(), .value = 0});
}

void AdamWOptimizer::prepare(StepInputs& inputs, std::int64_t update) const {
  inputs.bias_correction1 = 1 - std::pow(options_.beta1, static_cast<double>(update + 1));
  inputs.bias_correction2 = 1 - std::pow(options_.beta2, static_cast<double>(update + 1));
}

const std::string& AdamWOptimizer::first_nonfinite(const StepResults& results) const {
  const std::vector<double> norms = read_tensor(norms_, store_.allocator());
  ParameterId last = -1;  // in the order of a forward pass
  for (std::size_t segment = 0; segment < norms.size(); ++segment)
    if (!std::isfinite(norms[segment])) last = std::max(last, store_.layout()[segment]);
  return store_.info(last < 0 ? store_.layout()[results.first_nonfinite] : last).name;
}

}  // namespace comera
