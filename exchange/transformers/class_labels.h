#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/transformers/config_members.h"

namespace comera::exchange {

// The meaning of a sequence-classification head's outputs.
struct SequenceAnswers {
  std::int64_t count = 0;
  bool regression = false;
  bool several = false;                  // any number of labels at once
  std::vector<std::string> labels = {};  // one per class; none for a regression
};

// Reads a config.json with the rules of transformers: num_labels and id2label, where the first wins if both
// are present and differ; two classes if both are absent; numeric names are converted to text; LABEL_0,
// LABEL_1, … without names. Error in one sentence for ambiguous names, and for a problem_type that the head
// here does not have.
SequenceAnswers read_answers(const ConfigMembers& config);

// The labels of tokens, by the same rules.
std::vector<std::string> read_token_labels(const ConfigMembers& config);

}  // namespace comera::exchange
