#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/core/tensors/parameter.h"
#include "kernels/ops/processor.h"
#include "model/config.h"
#include "optim/optimizer.h"

namespace comera::test {

// The losses of steps of two micro-batches each, with dropout, on batches that depend on nothing else;
// adapters are merged after every third step. The model must have 29 token ids and 16 positions, and the
// masked-language head.
std::vector<double> trace(EncoderConfig config, const Processor& processor, int steps = 10,
                          const OptimizerOptions& optimizer = {});

// What one micro-batch leaves in the gradients of such a model with any head, without dropout, by parameter.
// announced: called during the pass with ranges of gradients that are complete.
using Announced = std::function<void(const ParameterStore&, const std::vector<ParameterRange>&)>;
std::map<std::string, std::vector<double>> gradients(EncoderConfig config, const Processor& processor,
                                                     const Announced& announced = {});

}  // namespace comera::test
