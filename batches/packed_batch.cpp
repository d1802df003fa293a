#include "batches/packed_batch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/core/check.h"

namespace comera {

namespace {

std::int64_t aligned(std::int64_t elements) { return (elements + 15) / 16 * 16; }

}  // namespace

void PackedBatch::lay_out(std::int32_t* base, Device device) {
  const std::int64_t tokens = capacity.tokens, sequences = capacity.sequences, masked = capacity.masked,
                     unique = capacity.unique_ids;
  for (auto [tensor, elements] : {std::pair{&token_ids, tokens},
                                  {&position_ids, tokens},
                                  {&type_ids, tokens},
                                  {&sequence_offsets, sequences + 1},
                                  {&masked_positions, masked},
                                  {&masked_targets, masked},
                                  {&labels, sequences},
                                  {&unique_ids, unique},
                                  {&unique_index, tokens},
                                  {&unique_order, tokens},
                                  {&unique_offsets, unique + 1},
                                  {&right_order, unique},
                                  {&slots, capacity.slots},
                                  {&counts, std::int64_t{6}},
                                  {&capacities, std::int64_t{9}}}) {
    *tensor = Tensor(base, {elements}, DType::int32, device);
    base += aligned(elements);
  }
  unique_total = counts.slice(3, {1});
  static_assert(sizeof(float) == sizeof(std::int32_t));
  scores = Tensor(base, {sequences * capacity.scores}, DType::float32, device);
  base += aligned(sequences * capacity.scores);
  for (auto [tensor, width] : {std::pair{&taught_vectors, capacity.taught_vectors},
                               std::pair{&taught_logits, capacity.taught_logits}}) {
    *tensor = Tensor(base, {sequences, width}, DType::float32, device);
    base += aligned(sequences * width);
  }
  token_rows = Tensor(base, {std::max({tokens, sequences, masked})}, DType::int32, device);
}

std::size_t PackedBatch::block_bytes() const {
  return static_cast<std::size_t>(static_cast<std::byte*>(token_rows.raw()) -
                                  static_cast<std::byte*>(block()));
}

PackedBatch::PackedBatch(Allocator& allocator, const MicroBatchCapacity& wanted) {
  *this = measuring(wanted, allocator.device());  // for the sizes
  memory_ = Buffer(allocator, block_bytes() + token_rows.bytes(), MemoryKind::workspace);
  lay_out(static_cast<std::int32_t*>(memory_.data()), allocator.device());
  std::vector<std::int32_t> rows(static_cast<std::size_t>(token_rows.elements()));
  std::iota(rows.begin(), rows.end(), 0);
  allocator.upload(token_rows.raw(), rows.data(), token_rows.bytes(), allocator.stream());
  allocator.synchronize(allocator.stream());
}

LookupIds PackedBatch::tokens() const {
  return {.ids = token_ids,
          .count = token_count(),
          .rows = token_rows.slice(0, {capacity.tokens}),
          .unique_ids = unique_ids,
          .unique_count = unique_count(),
          .unique_index = unique_index,
          .unique_order = unique_order,
          .unique_offsets = unique_offsets,
          .right_order = right_order};
}

void PackedBatch::check(std::span<const std::byte> block) const {
  MicroBatchCapacity of;
  if (block.size() == block_bytes()) {
    std::array<std::int32_t, 9> filled{};
    const auto* base = static_cast<const std::byte*>(this->block());
    std::memcpy(filled.data(), block.data() + (static_cast<const std::byte*>(capacities.raw()) - base),
                sizeof filled);
    of = {filled[0], filled[1], filled[2], filled[3], filled[4], filled[5], filled[6], filled[7], filled[8]};
  }
  COMERA_CHECK(
      of == capacity,
      "a batch of {} bytes was filled for another capacity than {} tokens, {} sequences of up to {}, {} "
      "masked positions and {} unique ids",
      block.size(), capacity.tokens, capacity.sequences, capacity.longest, capacity.masked,
      capacity.unique_ids);
}

PackedBatch PackedBatch::view() const {
  PackedBatch batch;
  batch.capacity = capacity;
  batch.lay_out(static_cast<std::int32_t*>(block()), token_ids.device());
  return batch;
}

PackedBatch PackedBatch::over(void* memory, const MicroBatchCapacity& capacity) {
  PackedBatch batch;
  batch.capacity = capacity;
  batch.lay_out(static_cast<std::int32_t*>(memory), Device{});
  return batch;
}

PackedBatch PackedBatch::measuring(const MicroBatchCapacity& capacity, Device device) {
  PackedBatch batch;
  batch.capacity = capacity;
  batch.lay_out(reinterpret_cast<std::int32_t*>(std::uintptr_t{1} << 46), device);
  return batch;
}

}  // namespace comera
