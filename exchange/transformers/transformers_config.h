#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "exchange/transformers/transformers_form.h"

namespace comera::exchange {

// The content of a config.json.
struct TransformersConfig {
  EncoderConfig model;  // dense unless the form is `comera`; its vocabulary is that of the weights
  Form form = Form::comera;
  std::vector<std::string> labels = {};  // of a classification head; empty: no names
  bool tied = true;                      // whether the decoder of a masked-language head is the embedding
  bool inputs_first = false;             // of `comera`: matrices are (inputs, outputs), as in old exports
};

// The text of config.json. special: of the tokenizer.
std::string config_json(const TransformersConfig& config, const data::SpecialIds& special);

// Reads a folder's config.json. Error in one sentence if it is damaged, of another architecture, or has a
// setting that the encoder here does not have. The head is that of `architectures`; a masked-language head if
// they name none.
TransformersConfig read_config(const std::filesystem::path& folder);

}  // namespace comera::exchange
