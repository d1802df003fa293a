#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "data/shard.h"

namespace comera::data {

// The documents of a shard set, cut into pieces of at most length − 2 tokens and put between [CLS] and [SEP].
// A document's pieces have equal lengths to within one token, so that none is a scrap. Empty documents have
// none. Blocks of tokens are read when needed and the latest are kept. For one thread. Memory: 8 bytes per
// document, and the kept blocks.
class Samples {
 public:
  // shards must outlive this.
  Samples(const ShardSet& shards, std::int64_t length, std::int64_t cache_bytes);

  std::int64_t count() const { return first_.back(); }
  // With [CLS] and [SEP].
  std::int64_t length(std::int64_t sample) const;
  // Of all samples.
  std::vector<std::int32_t> lengths() const;
  // Replaces ids; the label of the document, 0 without labels.
  std::int32_t read(std::int64_t sample, std::vector<std::int32_t>& ids, std::vector<std::int32_t>& type_ids);

 private:
  struct Place {
    std::size_t shard;
    std::int64_t document;    // within the shard
    std::int64_t begin, end;  // tokens within the shard
  };
  struct Block {
    std::int64_t key;
    std::vector<std::int32_t> tokens;
  };
  Place find(std::int64_t sample) const;
  const std::vector<std::int32_t>& block(std::size_t shard, std::int64_t index);

  const ShardSet& shards_;
  std::int64_t content_;                      // tokens of a sample besides [CLS] and [SEP]
  std::vector<std::int64_t> first_;           // documents + 1: first sample of each document of the set
  std::vector<std::int64_t> first_document_;  // shards + 1: first document of each shard
  std::size_t most_blocks_;
  std::list<Block> blocks_;  // latest first
  std::unordered_map<std::int64_t, std::list<Block>::iterator> where_;
};

}  // namespace comera::data
