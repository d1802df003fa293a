#pragma once

#include <cstddef>
#include <span>

#include "batches/lookup_ids.h"
#include "kernels/core/tensors/memory.h"

namespace comera {

// The capacity of one batch of a phase; PackedBatch::counts holds the actual sizes.
struct MicroBatchCapacity {
  std::int64_t tokens = 0;      // T
  std::int64_t sequences = 0;   // S
  std::int64_t longest = 0;     // length limit of a sequence
  std::int64_t masked = 0;      // P; 0 without masked positions
  std::int64_t unique_ids = 0;  // U
  std::int64_t scores = 1;      // L: of an example
  std::int64_t slots = 0;       // T for a head that compares the tokens of a sequence, else 0
  // Numbers of a teacher's answer to an example, where they are kept.
  std::int64_t taught_vectors = 0, taught_logits = 0;
  friend bool operator==(const MicroBatchCapacity&, const MicroBatchCapacity&) = default;
};

// Sequences packed end to end without padding; int32 except the scores. Rows beyond the counts are zero,
// offsets beyond them repeat the last one. Everything but token_rows lies in one block: a loader fills such a
// block on the host, and uploading a batch is one copy.
class PackedBatch {
 public:
  PackedBatch() = default;
  PackedBatch(Allocator& allocator, const MicroBatchCapacity& capacity);
  // The same layout over a block in host memory, which has no token_rows.
  static PackedBatch over(void* memory, const MicroBatchCapacity& capacity);
  // For dry runs: the addresses must not be read.
  static PackedBatch measuring(const MicroBatchCapacity& capacity, Device device = {});

  MicroBatchCapacity capacity;
  Tensor token_ids;         // (T) after masking
  Tensor position_ids;      // (T)
  Tensor type_ids;          // (T)
  Tensor sequence_offsets;  // (S + 1), repeats its last entry
  Tensor masked_positions;  // (P) token row of each target
  Tensor masked_targets;    // (P)
  Tensor labels;            // (S) classes of the examples (sequences or pairs of them)
  Tensor scores;        // (S L) float32, L of each example: targets of a regression, or weights of the losses
  Tensor unique_ids;    // (U) ascending
  Tensor unique_index;  // (T) index of each token's id in unique_ids
  Tensor unique_order;  // (T) token rows sorted by id
  Tensor unique_offsets;  // (U + 1) into unique_order
  Tensor right_order;     // (U) indices into unique_ids, sorted by (id % right rows of the TTM, id)
  Tensor slots;           // (T or 0) p S + s of token p of sequence s: its row in a table (longest, S)
  Tensor taught_vectors;  // (S, taught_vectors) float32: a teacher's, of each example,
  Tensor taught_logits;   // (S, taught_logits) float32: and its logits
  Tensor counts;          // (6)
  Tensor unique_total;    // (1) of counts: the number of unique_ids
  Tensor capacities;      // (9) the capacity that the block was filled for, in the order of its members
  Tensor token_rows;      // (max of T, S and P) 0, 1, 2, ...

  // The same tensors, in the memory of this batch, which must outlive them.
  PackedBatch view() const;

  // The batch's block: from token_ids to token_rows.
  void* block() const { return token_ids.raw(); }
  std::size_t block_bytes() const;
  // Throws Error if a host block was filled for another capacity.
  void check(std::span<const std::byte> block) const;

  Tensor token_count() const { return counts.slice(0, {1}); }
  Tensor sequence_count() const { return counts.slice(1, {1}); }
  Tensor masked_count() const { return counts.slice(2, {1}); }
  Tensor unique_count() const { return unique_total; }
  Tensor example_count() const { return counts.slice(4, {1}); }
  Tensor score_count() const { return counts.slice(5, {1}); }  // L times the examples
  // The tokens, for lookups in their table.
  LookupIds tokens() const;

 private:
  void lay_out(std::int32_t* base, Device device);

  Buffer memory_;
};

}  // namespace comera
