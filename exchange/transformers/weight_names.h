#pragma once

#include <string>
#include <vector>

#include "exchange/safetensors.h"
#include "exchange/transformers/transformers_form.h"

namespace comera::exchange {

// The names under which a folder may store one parameter. transformers has saved models with and without a
// head (an additional prefix), norms as gamma and beta, and tied weights, one tensor with two names, under
// either name.
struct WeightNames {
  std::vector<std::string> own = {};
  std::vector<std::string> tied = {};  // names of the tied counterpart: the decoder's, for the embedding
};
WeightNames names_of(const TensorPlace& place, Form form);

// The names present in the folder; those after the first are duplicates.
std::vector<std::string> present(const SafetensorsReader& reader, const std::vector<std::string>& names);

// Throws Error, with the file and both names, if two tensors for one parameter differ, because one of them
// would be dropped. why: "the decoder is the embedding (tie_word_embeddings = true)".
void require_equal(const SafetensorsReader& reader, const std::vector<std::string>& names,
                   const std::string& why);

}  // namespace comera::exchange
