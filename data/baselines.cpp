#include "data/baselines.h"

#include <algorithm>
#include <cmath>

namespace comera::data {

UnigramModel::UnigramModel(const ShardSet& shards) {
  constexpr std::int64_t block = 1 << 18;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(shards.info().vocabulary), 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(block));
  for (const ShardReader& shard : shards.shards())
    for (std::int64_t begin = 0; begin < shard.tokens(); begin += block) {
      const std::int64_t count = std::min(block, shard.tokens() - begin);
      shard.read_tokens(begin, count, tokens.data());
      for (std::int64_t i = 0; i < count; ++i) ++counts[static_cast<std::size_t>(tokens[i])];
    }
  const auto total = static_cast<double>(shards.tokens() + shards.info().vocabulary);
  nats_.resize(counts.size());
  for (std::size_t id = 0; id < counts.size(); ++id)
    nats_[id] = std::log(total / static_cast<double>(counts[id]));
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
