#pragma once

#include "kernels/ops/processor.h"
#include "model/step.h"

namespace comera {

// What a forward pass outside of training reads and writes besides tensors, in a device's memory: no dropout.
class ForwardStep {
 public:
  explicit ForwardStep(const Processor& processor);

  Step of(const Context& context, const ParameterStore& store) const;

 private:
  Buffer inputs_, results_;
};

}  // namespace comera
