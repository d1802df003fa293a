#pragma once

#include <filesystem>
#include <string>

#include "model/model.h"

namespace comera::exchange {

struct OnnxOptions {
  bool encoder_only = false;  // hidden states instead of the head's answers
  bool int8 = false;          // weights of linear layers and of a dense table in 8 bits
};

// A model as ONNX (opset 17), for inference. Layers are as the model has them: of a tensor train the left and
// the right factor, two products.
//   Inputs: input_ids, attention_mask (1: a token, 0: padding) and, with more than one type, token_type_ids,
//   all (batch, sequence) of int64; where pairs are encoded separately second_input_ids and
//   second_attention_mask (batch, second_sequence) too, and no types.
//   Output: logits, (batch, sequence, vocabulary) of a masked-language head, (batch, sequence, labels) of one
//   for words, else (batch, outputs); for answers start_logits and end_logits, (batch, sequence); of an
//   encoder alone, and of a contrastive model, last_hidden_state, (batch, sequence, hidden). 8 bits: as ONNX
//   Runtime's dynamic quantization: inputs of products are rounded when it runs, with a scale for each call;
//   weights are whole numbers from -63 to 63 with a scale for each output (7 bits: on processors without VNNI
//   instructions sums of more would saturate). Factors of tables stay as they are.
// Error if it would be larger than 2 GiB.
std::string onnx_model(const Model& model, const OnnxOptions& options);

}  // namespace comera::exchange
