#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

namespace comera::exchange {

// As which of Hugging Face's architectures a model is written or read.
enum class Form : std::uint8_t {
  bert,           // post-norm, learned positions
  megatron_bert,  // the same with pre-norm
  roformer,       // post-norm, rotary positions, a masked-language head
  roberta,        // read only: BERT with other names
  comera,         // what has no counterpart: with a modelling file of ours (modeling_comera.py)
};
// The model_type of a config.json.
const char* name_of(Form form);
// Of the names of an encoder's weights where a head stands on it: "bert.".
std::string base_prefix(Form form);

// What a model of that configuration is written as, and for `comera` why: "its positions are relative".
struct FormChoice {
  Form form = Form::comera;
  std::string reason = {};
};
FormChoice form_of(const EncoderConfig& config);

// Where a parameter of a dense model is in the files of a form.
struct TensorPlace {
  std::string ours, theirs;
  bool transposed = false;        // theirs is (outputs, inputs)
  bool interleaved = false;       // by heads: rotary pairs lie side by side, ours half a head apart
  std::int64_t skipped_rows = 0;  // theirs begins with so many rows that mean nothing here
};
// Of a parameter of a dense model by its name, such as "encoder.0.norm1.bias".
TensorPlace place_of(const std::string& parameter, Form form);

// The numbers of one parameter, from our layout to theirs and back. shape: ours.
std::vector<double> to_theirs(const std::vector<double>& values, const Shape& shape, const TensorPlace& place,
                              std::int64_t heads);
std::vector<double> to_ours(const std::vector<double>& values, const Shape& shape, const TensorPlace& place,
                            std::int64_t heads);
// Of a tensor in the files; shape: ours.
std::vector<std::int64_t> shape_of_theirs(const Shape& shape, const TensorPlace& place);

}  // namespace comera::exchange
