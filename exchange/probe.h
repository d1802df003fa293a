#pragma once

#include <vector>

#include "data/shards/samples.h"
#include "kernels/ops/processor.h"
#include "model/model.h"

namespace comera::exchange {

// A model's outputs on sequences, for comparison with an export or import of it.

// For each sample the logits of its targets, one after another, or those of a head that reads sequences.
std::vector<std::vector<double>> answers(const Model& model, const Processor& processor,
                                         const data::SpecialIds& special,
                                         const std::vector<data::Sample>& samples);

// A few sequences of arbitrary ids, always the same for a given vocabulary and number of positions. All
// positions are targets.
std::vector<data::Sample> probes(const EncoderConfig& config, const data::SpecialIds& special);

// Infinite if a value is not finite, so that it never passes as a small difference.
double largest_difference(const std::vector<std::vector<double>>& a,
                          const std::vector<std::vector<double>>& b);

}  // namespace comera::exchange
