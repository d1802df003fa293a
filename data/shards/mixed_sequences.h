#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/shards/sequence_set.h"

namespace comera::data {

// One of several sets that are trained together.
struct MixedPart {
  std::string name;  // the folder, for messages
  std::unique_ptr<SequenceSet> set;
  std::optional<double> weight = {};  // relative share of the tokens
};

// The training sequences of several sources, mixed by their weights (data/shards/mixture.h) or, without
// weights, taken as they are. Either all parts have a weight or none. Error if the parts differ in
// vocabulary, or if only some of them are masked already.
std::unique_ptr<SequenceSet> mix(std::vector<MixedPart> parts);

}  // namespace comera::data
