#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoints/model_state.h"
#include "checkpoints/rank_history.h"
#include "model/model.h"
#include "tests/recipes/sample.h"

namespace comera::test {

// The sample with a tensor-train matrix as embedding: 9 tensor trains. S_init is 8 * 2176 + 1076 = 18484.
inline std::string ranked_recipe() {
  return edited("[[phase]]",
                "[tensorized.embedding]\nrow_modes = [4, 5, 5]\ncolumn_modes = [4, 4, 4]\nranks = [6, 7]\n\n"
                "[[phase]]");
}

struct RankedCheckpoint {
  std::vector<std::string> overrides;          // of ranked_recipe()
  std::map<std::string, std::int64_t> dead{};  // first entries of a gate that are 0, by the gate's name
  std::vector<std::string> gone{};             // layers whose cores and gates a compaction took away
  RankHistory history{};                       // none: as older versions wrote
  std::int64_t step = 12;
};

inline void write_ranked(const std::filesystem::path& path, const RankedCheckpoint& checkpoint) {
  const Recipe recipe = parse_recipe(ranked_recipe(), "r.toml", checkpoint.overrides);
  Model model(encoder_config(recipe, 100), host_allocator(), false);
  ParameterStore& store = model.parameters();
  store.initialize(2);
  for (const auto& [gate, count] : checkpoint.dead) {
    const Tensor tensor = store.value(*store.find(gate));
    std::vector<double> values = read_tensor(tensor);
    std::fill(values.begin(), values.begin() + count, 0.0);
    write_tensor(tensor, values);
  }
  CheckpointWriter writer(path);
  for (ParameterId id = 0; id < store.size(); ++id) {
    const std::string& name = store.info(id).name;
    bool kept = true;
    for (const std::string& layer : checkpoint.gone)
      kept = kept && !name.starts_with(layer + ".core.") && !name.starts_with(layer + ".gate.");
    if (kept) writer.tensor("/model/" + name, store.value(id), {{"role", name_of(store.info(id).role)}});
  }
  if (!checkpoint.history.stages.empty()) save_rank_history(writer, checkpoint.history);
  writer.attributes("/recipe", {{"toml", to_toml(recipe)}});
  writer.attributes("/trainer",
                    {{"step", checkpoint.step}, {"phase", std::int64_t{0}}, {"tokens", std::int64_t{7}}});
  writer.attributes("/data", {{"vocabulary", std::int64_t{100}}});
  writer.commit();
}

// The ranks that ranked_recipe() starts with.
inline LayerRanks start_ranks() {
  LayerRanks ranks{{"embedding.tokens", {6, 7}}};
  for (const char* block : {"encoder.0", "encoder.1"})
    for (const char* part : {"query", "key", "value", "output"})
      ranks[fmt::format("{}.attention.{}", block, part)] = {8, 16, 8};
  return ranks;
}

// A layer with pruned ranks, one with a fully pruned bond.
inline std::map<std::string, std::int64_t> some_dead() {
  return {{"encoder.0.attention.query.gate.0", 3},
          {"encoder.0.attention.query.gate.1", 6},
          {"encoder.1.attention.key.gate.1", 16}};
}

}  // namespace comera::test
