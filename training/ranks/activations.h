#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/shards/samples.h"

namespace comera {

// What the layers of a dense encoder read, over a sample of texts: for decompositions that keep what matters
// for such texts (tensorized/decomposition/input_moments.h).
struct Activations {
  // Of a layer's inputs: the mean, and the root of the covariance.
  struct Inputs {
    std::vector<double> mean = {}, root = {};
  };
  std::map<std::string, std::shared_ptr<const Inputs>> layers = {};  // by the name of each output
  std::vector<double> times = {};       // how often each id of the vocabulary was read
  std::int64_t tokens = 0, enough = 0;  // read, and wanted
};

// Runs the dense model of a checkpoint, on the CPU and in float32, over texts of up to `length` tokens in a
// random order, until it has read four times as many tokens as its widest layer has inputs, and at least
// 16,384, or all of them. Error if there are none. Memory: 8 bytes for each pair of a layer's inputs.
Activations measure_activations(const std::filesystem::path& checkpoint,
                                std::unique_ptr<data::SampleSource> texts, std::int64_t length);

}  // namespace comera
