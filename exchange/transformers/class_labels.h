#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/transformers/config_members.h"

namespace comera::exchange {

// What the outputs of a sequence-classification head stand for.
struct SequenceAnswers {
  std::int64_t count = 0;
  bool regression = false;
  std::vector<std::string> labels = {};  // one for each class; none of a regression
};

// Of a config.json, as transformers takes it: num_labels and id2label, of which the first decides where both
// stand and differ; two classes where neither does; names that are numbers, as text; LABEL_0, LABEL_1, …
// where there are none. Error in one sentence for names by which classes cannot be told apart, and for a
// problem_type that the head here does not have.
SequenceAnswers read_answers(const ConfigMembers& config);

}  // namespace comera::exchange
