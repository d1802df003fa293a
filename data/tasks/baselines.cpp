#include "data/tasks/baselines.h"

#include <cmath>

namespace comera::data {

namespace {

std::vector<std::int64_t> counts_of(const SequenceSet& sequences) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(sequences.vocabulary()));
  sequences.count_pieces(counts);
  return counts;
}

std::vector<std::int64_t> counts_of(const ShardSet& shards) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(shards.info().vocabulary));
  shards.count_pieces(counts);
  return counts;
}

}  // namespace

UnigramModel::UnigramModel(const ShardSet& shards) : UnigramModel(counts_of(shards)) {}
UnigramModel::UnigramModel(const SequenceSet& sequences) : UnigramModel(counts_of(sequences)) {}

UnigramModel::UnigramModel(std::vector<std::int64_t> counts) : nats_(counts.size()) {
  double total = 0;
  for (const std::int64_t count : counts) total += static_cast<double>(count + 1);
  for (std::size_t id = 0; id < counts.size(); ++id)
    nats_[id] = std::log(total / static_cast<double>(counts[id] + 1));
}

void add_to_baselines(const UnigramModel& model, const Batch& batch, Baselines& baselines) {
  double sum = baselines.unigram * static_cast<double>(baselines.targets);
  for (std::int32_t i = 0; i < batch.masked; ++i) {
    const std::int32_t id = batch.masked_targets[i];
    COMERA_CHECK(id >= 0 && id < model.vocabulary(),
                 "a target has id {}, the training vocabulary has {} pieces", id, model.vocabulary());
    sum += model.nats(id);
  }
  baselines.uniform = std::log(static_cast<double>(model.vocabulary()));
  baselines.targets += batch.masked;
  baselines.unigram = baselines.targets == 0 ? 0 : sum / static_cast<double>(baselines.targets);
}

Baselines held_out_baselines(const UnigramModel& model, Loader& held_out) {
  Baselines baselines;
  baselines.uniform = std::log(static_cast<double>(model.vocabulary()));
  while (const Batch* batch = held_out.try_next()) add_to_baselines(model, *batch, baselines);
  return baselines;
}

}  // namespace comera::data
