#include "checkpoints/rank_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "kernels/core/check.h"

namespace comera {

namespace {

constexpr const char* group = "/ranks";
std::string stage_group(std::int64_t stage) { return fmt::format("{}/{}", group, stage); }

struct CoreName {
  std::string layer;
  std::size_t number = 0;
};

// Parses "/model/encoder.0.ffn.up.core.2".
std::optional<CoreName> core_name(std::string_view path) {
  constexpr std::string_view folder = "/model/", infix = ".core.";
  const std::size_t at = path.rfind(infix);
  if (!path.starts_with(folder) || at == std::string_view::npos || at <= folder.size()) return std::nullopt;
  const std::string_view digits = path.substr(at + infix.size());
  CoreName core{std::string(path.substr(folder.size(), at - folder.size()))};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), core.number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return core;
}

template <class T>
std::int64_t nonzero_in(const CheckpointReader& reader, const std::string& gate) {
  const std::vector<T> values = reader.read_values<T>(gate);
  return std::ranges::count_if(values, [](T value) { return value != 0; });
}

}  // namespace

void save_rank_history(CheckpointWriter& writer, const RankHistory& history) {
  const auto stages = static_cast<std::int64_t>(history.stages.size());
  writer.attributes(group, {{"initial_size", history.initial_size}, {"stages", stages}});
  for (std::int64_t i = 0; i < stages; ++i) {
    const StageRanks& stage = history.stages[i];
    writer.attribute(stage_group(i), "name", stage.name);
    const std::string layers = stage_group(i) + "/layers";
    writer.attributes(layers, {});
    for (const auto& [layer, ranks] : stage.ranks) writer.attribute(layers, layer, ranks);
  }
}

RankHistory load_rank_history(const CheckpointReader& reader) {
  RankHistory history;
  if (!reader.attributes(group).contains("stages")) return history;
  history.initial_size = reader.integer(group, "initial_size");
  const std::int64_t stages = reader.integer(group, "stages");
  for (std::int64_t i = 0; i < stages; ++i) {
    StageRanks stage{reader.text(stage_group(i), "name"), {}};
    const std::string layers = stage_group(i) + "/layers";
    for (const auto& [layer, value] : reader.attributes(layers))
      stage.ranks[layer] = reader.list(layers, layer);
    history.stages.push_back(std::move(stage));
  }
  return history;
}

LayerRanks held_ranks(const CheckpointReader& reader) {
  // Sorted by name, core 10 would come before core 2.
  std::map<std::string, std::map<std::size_t, std::int64_t>> right_ranks;
  for (const CheckpointTensor& tensor : reader.tensors())
    if (const auto core = core_name(tensor.path); core && tensor.shape.size() >= 3)
      right_ranks[core->layer][core->number] = tensor.shape.back();
  LayerRanks held;
  for (const auto& [layer, ranks] : right_ranks) {
    COMERA_CHECK(ranks.rbegin()->first + 1 == ranks.size(), "{}: {} has a core.{} but only {} cores",
                 reader.path().string(), layer, ranks.rbegin()->first, ranks.size());
    std::vector<std::int64_t>& bonds = held[layer];
    for (const auto& [core, rank] : ranks)
      if (core + 1 < ranks.size()) bonds.push_back(rank);
  }
  return held;
}

LayerRanks live_ranks(const CheckpointReader& reader) {
  LayerRanks ranks = held_ranks(reader);
  for (auto& [layer, bonds] : ranks)
    for (std::size_t bond = 0; bond < bonds.size(); ++bond) {
      const std::string gate = fmt::format("/model/{}.gate.{}", layer, bond);
      const CheckpointTensor& tensor = reader.tensor(gate);
      COMERA_CHECK(tensor.shape == std::vector{bonds[bond]},
                   "{}: '{}' should have {} entries, the rank of its cores", reader.path().string(), gate,
                   bonds[bond]);
      bonds[bond] =
          tensor.dtype == DType::float64 ? nonzero_in<double>(reader, gate) : nonzero_in<float>(reader, gate);
    }
  return ranks;
}

}  // namespace comera
