#pragma once

#include <vector>

#include "data/shards/samples.h"
#include "kernels/ops/processor.h"
#include "model/model.h"

namespace comera::exchange {

// What a model says of sequences, to compare it with what was made of it.

// For each sample the logits of its targets, one after another, or of the head on sequences.
std::vector<std::vector<double>> answers(const Model& model, const Processor& processor,
                                         const data::SpecialIds& special,
                                         const std::vector<data::Sample>& samples);

// A few sequences of any ids, always the same ones for models of one vocabulary and number of positions. All
// positions are targets.
std::vector<data::Sample> probes(const EncoderConfig& config, const data::SpecialIds& special);

// Infinite if a number is not finite, so that it never passes for a small difference.
double largest_difference(const std::vector<std::vector<double>>& a,
                          const std::vector<std::vector<double>>& b);

}  // namespace comera::exchange
