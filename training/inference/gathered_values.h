#pragma once

#include "distributed/communicator.h"
#include "training/inference/inference_engine.h"

namespace comera {

// Writes the values that the engine has for a sample to its own place among all.
using KeepValues =
    std::function<void(std::int64_t sample, std::span<const double> values, std::span<double> all)>;

// What the engine says of all samples, which the processes share: each gets `count` numbers, of its own
// samples and the others'. Nothing if `stop` requests a stop in any of them.
std::optional<std::vector<double>> gathered_values(InferenceEngine& engine,
                                                   std::unique_ptr<data::SampleSource> samples,
                                                   const MicroBatchCapacity& capacity, std::int64_t count,
                                                   const KeepValues& keep, const std::function<bool()>& stop,
                                                   Communicator& communicator);

// For a sample whose values stand in a row of their own.
void keep_row(std::int64_t sample, std::span<const double> values, std::span<double> all);

}  // namespace comera
