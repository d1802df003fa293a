#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exchange/safetensors.h"
#include "exchange/transformers_config.h"
#include "model/model.h"

namespace comera::exchange {

// Writes model.safetensors with all parameters of a model, which must be dense unless the form is `comera`;
// gates are multiplied into the cores before them.
void write_weights(const std::filesystem::path& folder, const Model& model, Form form);

// Reads the weights of a folder into a model that was made with its configuration; gates become 1. Returns
// the parameters that the folder has nothing for, which stay as they are: of the head only. Error in one
// sentence for a weight that is missing or of another shape, and for one of the encoder that has no place
// here.
std::vector<std::string> read_weights(const SafetensorsReader& reader, Form form, const Model& model);

}  // namespace comera::exchange
