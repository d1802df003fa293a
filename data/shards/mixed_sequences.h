#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/shards/sequence_set.h"

namespace comera::data {

// One of several sets that are trained on together.
struct MixedPart {
  std::string name;  // the folder, for messages
  std::unique_ptr<SequenceSet> set;
  std::optional<double> weight = {};  // its share of the tokens, against the others'
};

// The training sequences of several sources by their weights (data/shards/mixture.h); without weights, each
// as it is. Either all parts have a weight or none. Error if the parts differ in vocabulary, or if only some
// of them are masked already.
std::unique_ptr<SequenceSet> mix(std::vector<MixedPart> parts);

}  // namespace comera::data
