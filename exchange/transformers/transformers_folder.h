#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/model_state.h"
#include "exchange/safetensors.h"
#include "exchange/transformers/transformers_config.h"
#include "model/model.h"

namespace comera::exchange {

// Writes model.safetensors with all parameters of a model, which must be dense unless the form is `comera`;
// gates are multiplied into the cores before them. carried: parameters of a head that the model does not
// have.
void write_weights(const std::filesystem::path& folder, const Model& model, Form form,
                   const std::vector<CarriedParameter>& carried = {});
// The values of a parameter as files have them: those of a core with the gates behind it.
std::vector<double> exported_values(const ParameterStore& store, ParameterId id);
// Whether transformers' encoder of this form has a pooler beside a masked-language head.
bool has_pooler(Form form);

struct ReadWeights {
  std::vector<std::string> fresh = {};        // parameters missing in the folder, only of the head
  std::vector<std::string> left_out = {};     // tensors of heads that the model does not have
  std::vector<CarriedParameter> pooler = {};  // initial values for a later head for classes or scores
  std::string note = {};                      // about rounded sines and cosines
};

// Reads the weights of a folder into a model that was made with its configuration; gates become 1, fresh
// parameters are unchanged. Error in one sentence for a missing weight, a wrong shape, an encoder weight that
// has no counterpart here, tied weights that differ, and other rotary angles.
ReadWeights read_weights(const SafetensorsReader& reader, const TransformersConfig& config,
                         const Model& model);

}  // namespace comera::exchange
