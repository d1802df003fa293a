#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "batches/packed_batch.h"

namespace comera::data {

struct Sample;
struct Targets;

// The capacity for `tokens` tokens in sequences of up to sequence_length, with a fraction mask_probability
// masked: enough masked positions for five standard deviations, and enough sequences for a likely share of
// short ones. masked_together: mean number of tokens that are masked together (1 unless whole words are
// masked).
MicroBatchCapacity capacity_for(std::int64_t tokens, std::int64_t sequence_length, double mask_probability,
                                std::int64_t vocabulary, double masked_together = 1);

// A batch being filled on the host: the arrays of a PackedBatch of that capacity, in one block. Entries
// beyond the counts are 0, offsets beyond the counts repeat the last one.
struct Batch {
  std::span<std::int32_t> token_ids;               // T, after masking
  std::span<std::int32_t> position_ids;            // T, within the sequence
  std::span<std::int32_t> type_ids;                // T, from 0 to below the model's types
  std::span<std::int32_t> sequence_offsets;        // S + 1
  std::span<std::int32_t> masked_positions;        // P: token row of each target, ascending
  std::span<std::int32_t> masked_targets;          // P: the original ids
  std::span<std::int32_t> labels;                  // S: per example
  std::span<float> scores;                         // S L: L per example
  std::span<float> taught_vectors, taught_logits;  // S times the numbers of an example
  std::span<std::int32_t> unique_ids;              // U: ids that occur in token_ids, ascending
  std::span<std::int32_t> unique_index;            // T: index into unique_ids of each token
  std::span<std::int32_t> unique_order;            // T: token rows, sorted stably by id
  std::span<std::int32_t> unique_offsets;          // U + 1, into unique_order
  std::span<std::int32_t> right_order;  // U: indices into unique_ids sorted by (id % right_modulus, id)
  std::span<std::int32_t> slots;        // T or 0: position S + sequence of each token
  std::vector<std::int64_t> samples;    // S: index of each example's sample in its source; not in the block
  // Examples are sequences, or pairs or triples of consecutive sequences.
  std::int32_t tokens = 0, sequences = 0, masked = 0, unique = 0, examples = 0;

  Batch() = default;
  // An empty batch of that capacity.
  explicit Batch(const MicroBatchCapacity& capacity);
  Batch(const Batch& other);
  Batch(Batch&&) = default;  // the block stays where it is
  Batch& operator=(Batch&&) = default;

  // The block to upload to a device; complete after finish_batch().
  std::span<const std::byte> block() const { return std::as_bytes(std::span(block_)); }

  // Resets everything to 0.
  void clear();
  // Adds an example with one sequence of `count` ids; targets: positions within the sequence and the original
  // ids. Error if it does not fit.
  void add_sequence(const std::int32_t* ids, const std::int32_t* types, std::int64_t count,
                    const std::vector<std::int32_t>& target_positions = {},
                    const std::vector<std::int32_t>& target_ids = {}, std::int32_t label = 0);
  // The same with a sample's label and score, and one sequence or two; number: the sample's index in its
  // source.
  void add_sequence(const Sample& sample, const Targets& targets, std::int64_t number);

 private:
  friend void finish_batch(Batch& batch, std::int64_t right_modulus);
  void append(const std::int32_t* ids, const std::int32_t* types, std::int64_t count,
              const std::vector<std::int32_t>& target_positions, const std::vector<std::int32_t>& target_ids);

  MicroBatchCapacity capacity_;
  std::vector<std::int32_t> block_;
  std::span<std::int32_t> counts_, capacities_;  // in the block, as in PackedBatch
};

// Fills unique_*, right_order, slots and the block's counts from token_ids[0, tokens), and repeats the last
// sequence offset. right_modulus: the right rows of a TTM embedding (id % right_modulus is the index of the
// right row); 0: right_order is the identity. Error if ids are negative or more distinct ids occur than fit.
void finish_batch(Batch& batch, std::int64_t right_modulus);

}  // namespace comera::data
