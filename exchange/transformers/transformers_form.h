#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

namespace comera::exchange {

// The Hugging Face architecture in which a model is written or read.
enum class Form : std::uint8_t {
  bert,           // post-norm, learned positions
  megatron_bert,  // the same with pre-norm
  roformer,       // post-norm, rotary positions, a head that reads tokens
  electra,        // BERT with narrow tables and a head that reads tokens, as ELECTRA's generator
  roberta,        // read only: BERT with other names
  albert,         // read only: BERT with narrow tables, whose layers all have the same weights
  distilbert,     // read only: BERT with other names and without types of segments
  mpnet,          // read only: the same with biases of scores by distance
  comera,         // no counterpart: with our modelling file (modeling_comera.py)
};
// The model_type of a config.json.
const char* name_of(Form form);
// Whether its embedding has types of segments; otherwise there is one here, which adds 0.
bool has_types(Form form);
// The prefix of an encoder's weights in a model with a head: "bert.".
std::string base_prefix(Form form);

// The form in which such a model is written, and for `comera` the reason: "its positions are relative".
struct FormChoice {
  Form form = Form::comera;
  std::string reason = {};
};
FormChoice form_of(const EncoderConfig& config);

// The name and layout of a dense model's parameter in the files of a form.
struct TensorPlace {
  std::string ours, theirs;
  bool transposed = false;        // theirs is (outputs, inputs)
  bool interleaved = false;       // by heads: rotary pairs lie side by side, ours half a head apart
  std::int64_t skipped_rows = 0;  // leading rows of theirs that have no meaning here
};
// For a parameter of a dense model by its name, such as "encoder.0.norm1.bias".
TensorPlace place_of(const std::string& parameter, Form form);

// The values of one parameter, from our layout to theirs and back. shape: ours.
std::vector<double> to_theirs(const std::vector<double>& values, const Shape& shape, const TensorPlace& place,
                              std::int64_t heads);
std::vector<double> to_ours(const std::vector<double>& values, const Shape& shape, const TensorPlace& place,
                            std::int64_t heads);
// The shape of the tensor in the files; shape: ours.
std::vector<std::int64_t> shape_of_theirs(const Shape& shape, const TensorPlace& place);

}  // namespace comera::exchange
