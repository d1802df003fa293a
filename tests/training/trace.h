#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/ops/processor.h"
#include "model/config.h"
#include "optim/optimizer.h"

namespace comera::test {

// The losses of steps of two micro-batches each, with dropout, on batches that depend on nothing else;
// adapters are merged after every third step. The model must have 29 token ids and 16 positions, and the
// masked-language head.
std::vector<double> trace(EncoderConfig config, const Processor& processor, int steps = 10,
                          const OptimizerOptions& optimizer = {});

// The gradients of one micro-batch of such a model with any head, without dropout, by parameter.
std::map<std::string, std::vector<double>> gradients(EncoderConfig config, const Processor& processor);

}  // namespace comera::test
