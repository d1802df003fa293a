#include "model/forward_step.h"

namespace comera {

ForwardStep::ForwardStep(const Processor& processor)
    : inputs_(processor.allocator, sizeof(StepInputs), MemoryKind::workspace),
      results_(processor.allocator, sizeof(StepResults), MemoryKind::workspace) {
  const Stream stream = processor.allocator.stream();
  const StepInputs inputs;
  const StepResults results;
  processor.allocator.upload(inputs_.data(), &inputs, sizeof inputs, stream);
  processor.allocator.upload(results_.data(), &results, sizeof results, stream);
  processor.allocator.synchronize(stream);
}

Step ForwardStep::of(const Context& context, const ParameterStore& store) const {
  return {.context = context,
          .store = store,
          .inputs = inputs_.tensor({sizeof(StepInputs)}, DType::uint8),
          .results = results_.tensor({sizeof(StepResults)}, DType::uint8),
          .training = false};
}

}  // namespace comera
