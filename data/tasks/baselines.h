#pragma once

#include <cstdint>
#include <vector>

#include "data/batching/batch.h"
#include "data/batching/loader.h"
#include "data/shards/sequence_set.h"
#include "data/shards/shard.h"

namespace comera::data {

// The cross-entropy, in nats per target, of a model that knows nothing and of one that knows only piece
// frequencies: baselines for a training loss.
struct Baselines {
  double uniform = 0;  // ln of the vocabulary, without a TTM's padding rows
  double unigram = 0;  // of the masked targets, with the piece frequencies of the training split
  std::int64_t targets = 0;
};

// Piece frequencies of a split, with one added to each count.
class UnigramModel {
 public:
  // Reads the shards once, as a stream.
  explicit UnigramModel(const ShardSet& shards);
  explicit UnigramModel(const SequenceSet& sequences);
  // −ln p(id).
  double nats(std::int32_t id) const { return nats_[static_cast<std::size_t>(id)]; }
  std::int32_t vocabulary() const { return static_cast<std::int32_t>(nats_.size()); }

 private:
  explicit UnigramModel(std::vector<std::int64_t> counts);

  std::vector<double> nats_;
};

// Adds the batch's targets to the means.
void add_to_baselines(const UnigramModel& model, const Batch& batch, Baselines& baselines);
// Over the whole pass of a loader in one-pass mode, which is at its end afterwards.
Baselines held_out_baselines(const UnigramModel& model, Loader& held_out);

}  // namespace comera::data
