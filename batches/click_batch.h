#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "batches/lookup_ids.h"
#include "kernels/core/tensors/memory.h"

namespace comera {

// The capacity of one batch of clicks; its counts hold the actual sizes.
struct ClickCapacity {
  std::int64_t examples = 0;        // B
  std::int64_t dense_features = 0;  // numeric features per example
  struct Table {
    std::int64_t ids = 0;         // T, of all bags
    std::int64_t unique_ids = 0;  // U
    friend bool operator==(const Table&, const Table&) = default;
  };
  std::vector<Table> tables;

  // The capacity for one id in each of the tables with these rows.
  static ClickCapacity single(std::int64_t examples, std::int64_t dense_features,
                              const std::vector<std::int64_t>& rows);
  friend bool operator==(const ClickCapacity&, const ClickCapacity&) = default;
};

// Examples of a click model: numeric features, and a bag of ids for each table. Everything lies in one block:
// a loader fills such a block on the host, and uploading a batch is one copy. Rows beyond the counts are
// zero, offsets beyond them repeat the last one.
class ClickBatch {
 public:
  struct Table {
    Tensor offsets;  // int32 (B + 1): bag b has ids [offsets[b], offsets[b + 1])
    // For all bags, one after the other. `unique_order` holds bags instead of positions of ids, sorted by id:
    // the gradient of an id is the sum of those of its bags.
    LookupIds ids;
  };

  ClickBatch() = default;
  ClickBatch(Allocator& allocator, const ClickCapacity& capacity);
  // The same layout over a block in host memory, which has no LookupIds::rows.
  static ClickBatch over(void* memory, const ClickCapacity& capacity);
  // For dry runs: the addresses must not be read.
  static ClickBatch measuring(const ClickCapacity& capacity, Device device = {});

  ClickCapacity capacity;
  Tensor dense_features;  // float32 (B, numbers)
  Tensor labels;          // float32 (B): 0 or 1
  std::vector<Table> tables;
  Tensor counts;  // int32 (1 + 2 tables): examples, then ids and unique ids of each table
  Tensor filled;  // int32 (5): a digest of the capacity that the block was filled for

  Tensor example_count() const { return counts.slice(0, {1}); }
  void* block() const { return dense_features.raw(); }
  std::size_t block_bytes() const { return block_bytes_; }
  // Bytes of the block and of the memory after it.
  std::size_t bytes() const {
    return block_bytes_ + static_cast<std::size_t>(most_ids()) * sizeof(std::int32_t);
  }
  // Throws Error if a host block was filled for another capacity.
  void check(std::span<const std::byte> block) const;
  // The content of `filled`.
  std::vector<std::int32_t> digest() const;

 private:
  void lay_out(std::int32_t* base, Device device);
  std::int64_t most_ids() const;

  std::size_t block_bytes_ = 0;
  Buffer memory_;
};

}  // namespace comera
