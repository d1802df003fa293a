#include "training/device_batch.h"

#include <array>
#include <cstring>

#include "kernels/core/check.h"

namespace comera {

PackCapacity pack_capacity(const data::BatchCapacity& capacity) {
  return {.tokens = capacity.tokens,
          .sequences = capacity.sequences,
          .longest = capacity.sequence_length,
          .masked = capacity.masked,
          .unique_ids = capacity.unique_ids};
}

void send_batch(const data::Batch& from, const PackCapacity& capacity, Feed& feed) {
  COMERA_CHECK(
      from.tokens <= capacity.tokens && from.sequences <= capacity.sequences &&
          from.masked <= capacity.masked && from.unique <= capacity.unique_ids,
      "a batch of {} tokens, {} sequences, {} masked positions and {} unique ids is larger than its capacity "
      "of {}, {}, {} and {}",
      from.tokens, from.sequences, from.masked, from.unique, capacity.tokens, capacity.sequences,
      capacity.masked, capacity.unique_ids);
  const PackedBatch to = PackedBatch::over(feed.next(), capacity);
  const auto copy = [&](const auto& values, const Tensor& tensor) {
    COMERA_CHECK(static_cast<std::int64_t>(values.size()) == tensor.elements(),
                 "a batch array has {} entries, expected {}", values.size(), tensor.elements());
    std::memcpy(tensor.raw(), values.data(), tensor.bytes());
  };
  copy(from.token_ids, to.token_ids);
  copy(from.position_ids, to.position_ids);
  copy(from.type_ids, to.type_ids);
  copy(from.sequence_offsets, to.sequence_offsets);
  copy(from.masked_positions, to.masked_positions);
  copy(from.masked_targets, to.masked_targets);
  copy(from.labels, to.labels);
  copy(from.scores, to.scores);
  copy(from.unique_ids, to.unique_ids);
  copy(from.unique_index, to.unique_index);
  copy(from.unique_order, to.unique_order);
  copy(from.unique_offsets, to.unique_offsets);
  copy(from.right_order, to.right_order);
  copy(std::array{from.tokens, from.sequences, from.masked, from.unique, from.examples}, to.counts);
  feed.send();
}

}  // namespace comera
