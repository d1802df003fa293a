#include "data/batching/batch.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/batching/lookup_order.h"
#include "data/masking/masking.h"
#include "data/shards/samples.h"
#include "kernels/core/check.h"

namespace comera::data {
MicroBatchCapacity capacity_for(std::int64_t tokens, std::int64_t sequence_length, double mask_probability,
                                std::int64_t vocabulary, double masked_together) {
  MicroBatchCapacity capacity;
  capacity.tokens = tokens;
  capacity.longest = sequence_length;
  capacity.sequences = std::max<std::int64_t>(4 * tokens / std::max<std::int64_t>(sequence_length, 1), 1);
  const double mean = mask_probability * static_cast<double>(tokens);
  const double spread = 5 * std::sqrt(mean * (1 - mask_probability) * masked_together) + 1;
  capacity.masked = std::min(tokens, static_cast<std::int64_t>(std::ceil(mean + spread)));
  capacity.unique_ids = std::min(tokens, vocabulary);
  return capacity;
}

Batch::Batch(const MicroBatchCapacity& capacity) : capacity_(capacity) {
  block_.resize(PackedBatch::measuring(capacity).block_bytes() / sizeof(std::int32_t));
  const PackedBatch arrays = PackedBatch::over(block_.data(), capacity);
  const auto integers = [](const Tensor& tensor) {
    return std::span(tensor.data<std::int32_t>(), static_cast<std::size_t>(tensor.elements()));
  };
  token_ids = integers(arrays.token_ids);
  position_ids = integers(arrays.position_ids);
  type_ids = integers(arrays.type_ids);
  sequence_offsets = integers(arrays.sequence_offsets);
  masked_positions = integers(arrays.masked_positions);
  masked_targets = integers(arrays.masked_targets);
  labels = integers(arrays.labels);
  unique_ids = integers(arrays.unique_ids);
  unique_index = integers(arrays.unique_index);
  unique_order = integers(arrays.unique_order);
  unique_offsets = integers(arrays.unique_offsets);
  right_order = integers(arrays.right_order);
  slots = integers(arrays.slots);
  counts_ = integers(arrays.counts);
  capacities_ = integers(arrays.capacities);
  scores = std::span(arrays.scores.data<float>(), static_cast<std::size_t>(arrays.scores.elements()));
  const auto numbers = [](const Tensor& tensor) {
    return std::span(tensor.data<float>(), static_cast<std::size_t>(tensor.elements()));
  };
  taught_vectors = numbers(arrays.taught_vectors);
  taught_logits = numbers(arrays.taught_logits);
  samples.resize(static_cast<std::size_t>(capacity.sequences));
}

Batch::Batch(const Batch& other) : Batch(other.capacity_) {
  std::ranges::copy(other.block_, block_.begin());
  samples = other.samples;
  tokens = other.tokens, sequences = other.sequences, masked = other.masked;
  unique = other.unique, examples = other.examples;
}

void Batch::clear() {
  std::ranges::fill(block_, 0);
  std::ranges::fill(samples, 0);
  tokens = sequences = masked = unique = examples = 0;
}

void Batch::append(const std::int32_t* ids, const std::int32_t* types, std::int64_t count,
                   const std::vector<std::int32_t>& target_positions,
                   const std::vector<std::int32_t>& target_ids) {
  COMERA_CHECK(
      tokens + count <= static_cast<std::int64_t>(token_ids.size()) &&
          sequences < static_cast<std::int64_t>(labels.size()) &&
          masked + target_positions.size() <= masked_targets.size() &&
          target_positions.size() == target_ids.size(),
      "a sequence of {} tokens with {} targets does not fit into a batch that holds {} of {} tokens, {} of "
      "{} sequences, {} of {} targets",
      count, target_positions.size(), tokens, token_ids.size(), sequences, labels.size(), masked,
      masked_targets.size());
  for (std::int64_t i = 0; i < count; ++i) {
    token_ids[tokens + i] = ids[i];
    position_ids[tokens + i] = static_cast<std::int32_t>(i);
    type_ids[tokens + i] = types ? types[i] : 0;
  }
  for (std::size_t i = 0; i < target_ids.size(); ++i) {
    masked_positions[masked] = tokens + target_positions[i];
    masked_targets[masked++] = target_ids[i];
  }
  ++sequences;
  tokens += static_cast<std::int32_t>(count);
  sequence_offsets[sequences] = tokens;
}

void Batch::add_sequence(const std::int32_t* ids, const std::int32_t* types, std::int64_t count,
                         const std::vector<std::int32_t>& target_positions,
                         const std::vector<std::int32_t>& target_ids, std::int32_t label) {
  append(ids, types, count, target_positions, target_ids);
  labels[examples++] = label;
}

void Batch::add_sequence(const Sample& sample, const Targets& targets, std::int64_t number) {
  const auto count = static_cast<std::int64_t>(sample.ids.size());
  if (sample.second > 0) {
    COMERA_CHECK(targets.ids.empty(), "pairs of sequences have no masked tokens, but one came with {}",
                 targets.ids.size());
    const auto add = [&](std::int64_t begin, std::int64_t end) {
      append(sample.ids.data() + begin, sample.type_ids.data() + begin, end - begin, {}, {});
    };
    add(0, sample.second);
    add(sample.second, sample.third > 0 ? sample.third : count);
    if (sample.third > 0) add(sample.third, count);
  } else {
    append(sample.ids.data(), sample.type_ids.data(), count, targets.positions, targets.ids);
  }
  labels[examples] = sample.label;
  // Inference needs no targets, and its batches have no room for several.
  const std::int64_t several = std::min<std::int64_t>(std::ssize(sample.scores), capacity_.scores);
  scores[examples * capacity_.scores] = sample.score;
  std::copy_n(sample.scores.begin(), several, scores.begin() + examples * capacity_.scores);
  // Inference does not read a teacher's answers, and training none without room for them.
  const std::int64_t of_vector = capacity_.taught_vectors, of_logits = capacity_.taught_logits;
  if (!sample.taught.empty()) {
    COMERA_CHECK(std::ssize(sample.taught) == of_vector + of_logits,
                 "a teacher's answer of {} numbers does not fit into a batch with room for {} and {}",
                 sample.taught.size(), of_vector, of_logits);
    std::copy_n(sample.taught.begin(), of_vector, taught_vectors.begin() + examples * of_vector);
    std::copy_n(sample.taught.begin() + of_vector, of_logits, taught_logits.begin() + examples * of_logits);
  }
  samples[examples++] = number;
}

namespace {

void fill_slots(Batch& batch) {
  if (batch.slots.empty()) return;
  const std::int64_t sequences = std::ssize(batch.labels);
  for (std::int32_t s = 0; s < batch.sequences; ++s)
    for (std::int32_t i = batch.sequence_offsets[s]; i < batch.sequence_offsets[s + 1]; ++i)
      batch.slots[i] = static_cast<std::int32_t>((i - batch.sequence_offsets[s]) * sequences + s);
}

}  // namespace

void finish_batch(Batch& batch, std::int64_t right_modulus) {
  COMERA_CHECK(!batch.counts_.empty(), "a batch without memory was finished");
  batch.unique = order_ids(PackedBatch::over(batch.block_.data(), batch.capacity_).tokens(), batch.tokens,
                           right_modulus, "token id");
  std::fill(batch.sequence_offsets.begin() + batch.sequences, batch.sequence_offsets.end(), batch.tokens);
  fill_slots(batch);
  std::ranges::copy(std::array{batch.tokens, batch.sequences, batch.masked, batch.unique, batch.examples,
                               static_cast<std::int32_t>(batch.examples * batch.capacity_.scores)},
                    batch.counts_.begin());
  const MicroBatchCapacity& of = batch.capacity_;
  std::ranges::transform(std::array{of.tokens, of.sequences, of.longest, of.masked, of.unique_ids, of.scores,
                                    of.slots, of.taught_vectors, of.taught_logits},
                         batch.capacities_.begin(),
                         [](std::int64_t n) { return static_cast<std::int32_t>(n); });
}

}  // namespace comera::data
