#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/shards/samples.h"
#include "kernels/ops/processor.h"
#include "model/model.h"

namespace comera {

// Runs sequences through a model with a masked-language head, without dropout. visit gets the vocabulary
// logits of each target: sequences in no particular order, the targets of one sequence in order. The targets'
// ids are ignored. Sequences with many targets are run several times, so that memory does not grow with their
// number: about 30 MB besides the model.
using VisitLogits =
    std::function<void(std::size_t sequence, std::size_t target, std::span<const double> logits)>;
void run_masked(const Model& model, const Processor& processor, const std::vector<data::Sample>& sequences,
                const data::SpecialIds& special, const VisitLogits& visit);

// A piece predicted for a mask.
struct Filling {
  std::int32_t id = 0;
  double probability = 0;
};

// Probabilities are the softmax of all the logits, which must be finite. A model may have more ids than its
// tokenizer has pieces: only ids below `pieces` are chosen and ranked.

// The most likely pieces, or all pieces if there are fewer: most likely first, ties by id.
std::vector<Filling> likeliest(std::span<const double> logits, std::int64_t pieces, std::int64_t count);

// A piece's rank among all pieces, starting at 1.
struct Standing {
  double probability = 0;
  std::int64_t rank = 1;
};
Standing standing_of(std::int32_t id, std::span<const double> logits, std::int64_t pieces);

}  // namespace comera
