#pragma once

#include <string>
#include <vector>

#include "exchange/safetensors.h"
#include "exchange/transformers/transformers_form.h"

namespace comera::exchange {

// The names under which a folder may have one parameter. transformers saved models with a head and without
// (a prefix more or less), norms as gamma and beta, and of tied weights, which are one tensor with two names,
// either name.
struct WeightNames {
  std::vector<std::string> own = {};
  std::vector<std::string> tied = {};  // of the other end of a tie: the decoder's, for the embedding
};
WeightNames names_of(const TensorPlace& place, Form form);

// Those that the folder has; those behind the first say the same once more.
std::vector<std::string> present(const SafetensorsReader& reader, const std::vector<std::string>& names);

// Throws Error, with the file and both names, if two tensors of one parameter differ: one of them would be
// dropped. why: "the decoder is the embedding (tie_word_embeddings = true)".
void require_equal(const SafetensorsReader& reader, const std::vector<std::string>& names,
                   const std::string& why);

}  // namespace comera::exchange
