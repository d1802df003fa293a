#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exchange/safetensors.h"
#include "exchange/transformers/transformers_config.h"
#include "model/model.h"

namespace comera::exchange {

// Writes model.safetensors with all parameters of a model, which must be dense unless the form is `comera`;
// gates are multiplied into the cores before them.
void write_weights(const std::filesystem::path& folder, const Model& model, Form form);

// A parameter of a head that a model does not have.
struct CarriedParameter {
  std::string name;
  Shape shape;
  std::vector<double> values;
};
struct ReadWeights {
  std::vector<std::string> fresh = {};        // parameters that the folder has nothing for: of the head only
  std::vector<std::string> left_out = {};     // tensors of heads that the model does not have
  std::vector<CarriedParameter> pooler = {};  // that a head for classes or scores would begin with
  std::string note = {};                      // about sines and cosines that were rounded
};

// Reads the weights of a folder into a model that was made with its configuration; gates become 1, fresh
// parameters stay as they are. Error in one sentence for a weight that is missing or of another shape, for
// one of the encoder that has no place here, for tied weights that differ, and for other rotary angles.
ReadWeights read_weights(const SafetensorsReader& reader, const TransformersConfig& config,
                         const Model& model);

}  // namespace comera::exchange
