#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/shards/samples.h"
#include "kernels/ops/processor.h"
#include "model/model.h"

namespace comera {

// Puts sequences to a model with a masked-language head, without dropout. visit gets the logits of the
// vocabulary for each target, sequence by sequence in no particular order, the targets of one in theirs. The
// targets' own ids do not matter. Sequences with many targets are run several times, so that memory does not
// grow with their number: some 30 MB beside the model's own.
using VisitLogits =
    std::function<void(std::size_t sequence, std::size_t target, std::span<const double> logits)>;
void run_masked(const Model& model, const Processor& processor, const std::vector<data::Sample>& sequences,
                const data::SpecialIds& special, const VisitLogits& visit);

// A piece in the place of a mask.
struct Filling {
  std::int32_t id = 0;
  double probability = 0;
};

// Probabilities are the softmax of all the logits, which must be finite. A model may have more ids than its
// tokenizer has pieces: only the ids below `pieces` are chosen and ranked.

// The so many likeliest, or all pieces if there are fewer: the likeliest first, equal ones by their ids.
std::vector<Filling> likeliest(std::span<const double> logits, std::int64_t pieces, std::int64_t count);

// Where a piece stands among all pieces: the first has rank 1.
struct Standing {
  double probability = 0;
  std::int64_t rank = 1;
};
Standing standing_of(std::int32_t id, std::span<const double> logits, std::int64_t pieces);

}  // namespace comera
