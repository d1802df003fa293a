#pragma once

#include <cstdint>
#include <vector>

#include "data/shards/block_cache.h"
#include "data/shards/shard.h"

namespace comera::data {

struct Batch;

// The targets within a sequence.
struct Targets {
  std::vector<std::int32_t> positions;  // ascending
  std::vector<std::int32_t> ids;        // original ids
};

// One sequence with its targets, label or score.
struct Sample {
  std::vector<std::int32_t> ids;  // with [CLS] and [SEP]
  std::vector<std::int32_t> type_ids;
  std::int32_t label = 0;  // for a classification
  float score = 0;  // for a regression; for a classification the weight of its loss, if there are weights
  std::vector<float> scores = {};  // of several labels, instead: 0 or 1 for each
  std::vector<float> taught = {};  // a teacher's answer, where it is kept: a vector, then logits
  // Where a second sequence begins in ids; 0: only one sequence.
  std::int64_t second = 0;
  std::int64_t third = 0;  // the same of a third
  // Whether its ids are masked already, with these targets; otherwise the loader masks them.
  bool masked = false;
  Targets targets = {};
};

// Sequences of token ids that a loader packs into micro-batches. For one thread.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // The meaning of the ids; masking needs the kinds of pieces.
  virtual std::int32_t vocabulary() const = 0;
  virtual const SpecialIds& special() const = 0;

  virtual std::int64_t count() const = 0;
  // Switches to the samples of an epoch. Before the first call they are those of seed 0 and epoch 0.
  virtual void begin_epoch(std::uint64_t /*seed*/, std::int64_t /*epoch*/) {}
  // 1, or 2 or 3 where an example's texts are separate sequences.
  virtual std::int64_t sequences_per_sample() const { return 1; }
  // The tokens of each sample of epoch 0, including [CLS] and [SEP]. May be called while another thread
  // reads.
  virtual std::vector<std::int32_t> lengths() const = 0;
  // For a sample of this epoch, without reading it.
  virtual std::int64_t length(std::int64_t sample) const = 0;
  // Whether samples are masked already. Their targets must fit into a batch.
  virtual bool masked() const { return false; }
  // Replaces the content of `to`. Error if the sample cannot be read.
  virtual void read(std::int64_t sample, Sample& to) = 0;
  // Writes what an example needs of the others in its micro-batch, once all are there.
  virtual void complete(Batch& /*batch*/) const {}
};

// The documents of a shard set, cut into pieces of at most length − 2 tokens and placed between [CLS] and
// [SEP]. The lengths of a document's pieces differ by at most one token, so that none is a fragment. Empty
// documents have none. Blocks of tokens are read when needed, and the latest are kept. For one thread.
// Memory: 8 bytes per document, and the kept blocks.
class Samples final : public SampleSource {
 public:
  // shards must outlive this.
  Samples(const ShardSet& shards, std::int64_t length, std::int64_t cache_bytes);

  std::int32_t vocabulary() const override { return shards_.info().vocabulary; }
  const SpecialIds& special() const override { return shards_.info().special; }
  std::int64_t count() const override { return first_.back(); }
  std::vector<std::int32_t> lengths() const override;
  // The label is that of the document, 0 without labels.
  void read(std::int64_t sample, Sample& to) override;

  std::int64_t length(std::int64_t sample) const override;

 private:
  struct Place {
    std::size_t shard;
    std::int64_t document;    // within the shard
    std::int64_t begin, end;  // tokens within the shard
  };
  Place find(std::int64_t sample) const;
  const std::vector<std::int32_t>& block(std::size_t shard, std::int64_t index);

  const ShardSet& shards_;
  std::int64_t content_;                      // tokens of a sample without [CLS] and [SEP]
  std::vector<std::int64_t> first_;           // documents + 1: first sample of each document of the set
  std::vector<std::int64_t> first_document_;  // shards + 1: first document of each shard
  BlockCache<std::vector<std::int32_t>> blocks_;
};

}  // namespace comera::data
