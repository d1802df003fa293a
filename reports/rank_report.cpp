#include "reports/rank_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "reports/number_text.h"
#include "reports/rank_tables.h"

namespace comera {

namespace {

// The report's ranks, one column per stage.
struct Stage {
  std::string title;
  LayerRanks ranks;
};

std::vector<Stage> stages_of(const CheckpointRanks& state) {
  std::vector<Stage> stages;
  for (const StageRanks& stage : state.history.stages) stages.push_back({stage.name, stage.ranks});
  if (stages.empty()) stages.push_back({"ranks", {}});
  LayerRanks live;
  for (const ReportedLayer& layer : state.layers) {
    if (!layer.tensorized()) continue;
    live[layer.name] = layer.live;
    // For a layer that was added later, such as a new head, only the ranks in the file are known.
    if (!stages.front().ranks.contains(layer.name))
      for (Stage& stage : stages) stage.ranks[layer.name] = layer.held;
  }
  const auto differs = [&](const ReportedLayer& layer) {
    return layer.tensorized() && layer.ranks_in(stages.back().ranks) != layer.live;
  };
  if (std::ranges::any_of(state.layers, differs)) stages.push_back({"now", live});
  return stages;
}

// A row for each layer, and one for the sums of each block.
TextTable layers_table(const std::vector<Stage>& stages, const std::vector<ReportedLayer>& trains,
                       bool with_modes) {
  const auto before = [&](const ReportedLayer& layer) {
    return layer.core_elements(layer.ranks_in(stages.front().ranks));
  };
  std::vector<std::string> titles{"layer"};
  if (with_modes) titles.emplace_back("modes");
  for (const Stage& stage : stages) titles.push_back(stage.title);
  const std::size_t numbers = titles.size();
  titles.insert(titles.end(), {"before", "after", "times fewer"});
  TextTable table(titles);
  table.align_right(numbers);
  for_each_in_blocks<ReportedLayer>(
      trains,
      [&](const std::string& block, const std::vector<ReportedLayer>& members) {
        std::int64_t from = 0, to = 0, matrices = 0;
        for (const ReportedLayer& layer : members) {
          from += before(layer);
          to += layer.size();
          matrices += layer.matrix;
        }
        std::vector<std::string> row(numbers);
        row[0] = block;
        row.insert(row.end(), {grouped(from), grouped(to), times(matrices, to)});
        table.add(row);
      },
      [&](const std::string& name, const ReportedLayer& layer) {
        std::vector<std::string> row{name};
        if (with_modes) row.push_back(layer.modes);
        for (const Stage& stage : stages) row.push_back(ranks_text(layer.ranks_in(stage.ranks)));
        row.insert(row.end(),
                   {grouped(before(layer)), grouped(layer.size()), times(layer.matrix, layer.size())});
        table.add(row);
      },
      [](const ReportedLayer& layer) { return layer.name; });
  return table;
}

}  // namespace

std::string rank_report(const CheckpointRanks& state) {
  const TrainTotals totals = totals_of(state);
  if (totals.tensorized == 0) return "every layer is dense: there are no ranks\n";
  const std::vector<Stage> stages = stages_of(state);
  std::vector<ReportedLayer> trains;
  std::ranges::copy_if(state.layers, std::back_inserter(trains), &ReportedLayer::tensorized);
  TextTable table = layers_table(stages, trains, true);
  const bool has_modes = table.fits();
  if (!has_modes) table = layers_table(stages, trains, false);

  const std::int64_t size = state.size(), live = state.live_parameters();
  const std::int64_t whole_before = live - size + state.initial_size;
  std::string text = table.text();
  text +=
      "\nbefore, after: elements of the cores, counting live ranks only; times fewer than\nthe dense matrix";
  text += has_modes ? "\n" : "; comera inspect without --ranks shows the modes\n";
  if (state.history.stages.empty())
    text += "the file has no history of its ranks: 'before' shows its current ranks\n";
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("{:<25}{}\n", what, value);
  };
  text += "\n";
  line("tensorized layers (S)", fmt::format("{} -> {}, S/S_init = {:.4f}", grouped(state.initial_size),
                                            grouped(size), ratio(size, state.initial_size)));
  line("  as matrices",
       fmt::format("{}: {} -> {} times fewer", grouped(totals.matrices),
                   times(totals.matrices, state.initial_size), times(totals.matrices, size)));
  line("whole model, live ranks", fmt::format("{} -> {} parameters, {} -> {} as fp32", grouped(whole_before),
                                              grouped(live), megabytes(whole_before), megabytes(live)));
  line("  its dense baseline",
       fmt::format("{} parameters, {}: {} -> {} times fewer", grouped(state.dense_baseline),
                   megabytes(state.dense_baseline), times(state.dense_baseline, whole_before),
                   times(state.dense_baseline, live)));
  line("in this file",
       fmt::format("{} parameters, {} as fp32", grouped(state.parameters), megabytes(state.parameters)));
  line("removed layers", removed_text(state));
  return text;
}

}  // namespace comera
