#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "reports/number_text.h"
#include "reports/rank_report.h"
#include "reports/rank_tables.h"

namespace comera {

namespace {

// A layer of two models; it may be missing in either.
struct LayerPair {
  std::string name;
  std::optional<ReportedLayer> a, b;
};

std::vector<LayerPair> pairs_of(const CheckpointRanks& a, const CheckpointRanks& b) {
  std::vector<LayerPair> pairs;
  for (const ReportedLayer& layer : a.layers) pairs.push_back({layer.name, layer, std::nullopt});
  auto place = pairs.begin();
  for (const ReportedLayer& layer : b.layers) {
    const auto found = std::ranges::find(pairs, layer.name, &LayerPair::name);
    if (found != pairs.end()) found->b = layer;
    place = found != pairs.end() ? found + 1 : pairs.insert(place, {layer.name, std::nullopt, layer}) + 1;
  }
  std::erase_if(pairs, [](const LayerPair& pair) {
    return !(pair.a && pair.a->tensorized()) && !(pair.b && pair.b->tensorized());
  });
  return pairs;
}

std::string modes_of(const LayerPair& pair) {
  std::vector<std::string> modes;
  for (const auto* layer : {&pair.a, &pair.b})
    if (*layer && (*layer)->tensorized() && std::ranges::find(modes, (*layer)->modes) == modes.end())
      modes.push_back((*layer)->modes);
  return fmt::format("{}", fmt::join(modes, " / "));
}

std::string live_ranks_text(const std::optional<ReportedLayer>& layer) {
  if (!layer) return "-";
  return layer->tensorized() ? ranks_text(layer->live) : "dense";
}

std::string size_text(const std::optional<ReportedLayer>& layer) {
  return layer ? grouped(layer->size()) : "-";
}

// b per a, as a ratio.
std::string ratio_text(std::int64_t a, std::int64_t b) {
  return a == 0 ? "" : fmt::format("{:.3f}", ratio(b, a));
}

}  // namespace

std::string rank_comparison(const CheckpointRanks& a, const CheckpointRanks& b) {
  const std::vector<LayerPair> pairs = pairs_of(a, b);
  std::string text = fmt::format("A: {}, step {}\nB: {}, step {}\n\n", a.name, a.step, b.name, b.step);
  TextTable table({"layer", "modes", "ranks of A", "ranks of B", "cores of A", "cores of B", "B / A"});
  table.align_right(4);
  for_each_in_blocks<LayerPair>(
      pairs,
      [&](const std::string& block, const std::vector<LayerPair>& members) {
        std::int64_t from = 0, to = 0;
        for (const LayerPair& pair : members) {
          from += pair.a ? pair.a->size() : 0;
          to += pair.b ? pair.b->size() : 0;
        }
        table.add({block, "", "", "", grouped(from), grouped(to), ratio_text(from, to)});
      },
      [&](const std::string& name, const LayerPair& pair) {
        table.add({name, modes_of(pair), live_ranks_text(pair.a), live_ranks_text(pair.b), size_text(pair.a),
                   size_text(pair.b), pair.a && pair.b ? ratio_text(pair.a->size(), pair.b->size()) : ""});
      },
      [](const LayerPair& pair) { return pair.name; });
  if (!pairs.empty()) text += table.text() + "\n";

  TextTable totals({"live ranks only", "A", "B", "B / A"});
  totals.align_right(1);
  const auto count = [&](const char* what, std::int64_t of_a, std::int64_t of_b) {
    totals.add({what, grouped(of_a), grouped(of_b), ratio_text(of_a, of_b)});
  };
  const auto words = [&](const char* what, const std::string& of_a, const std::string& of_b) {
    totals.add({what, of_a, of_b, ""});
  };
  const auto share = [](const CheckpointRanks& state) {
    return state.initial_size == 0 ? "-" : fmt::format("{:.4f}", ratio(state.size(), state.initial_size));
  };
  const auto matrices = [](const CheckpointRanks& state) {
    return state.size() == 0 ? "-" : times(totals_of(state).matrices, state.size());
  };
  count("tensorized layers (S)", a.size(), b.size());
  words("S/S_init", share(a), share(b));
  words("times fewer than matrices", matrices(a), matrices(b));
  count("parameters, whole model", a.live_parameters(), b.live_parameters());
  words("as fp32", megabytes(a.live_parameters()), megabytes(b.live_parameters()));
  words("times fewer than dense", times(a.dense_baseline, a.live_parameters()),
        times(b.dense_baseline, b.live_parameters()));
  count("parameters in the file", a.parameters, b.parameters);
  text += totals.text();
  for (const auto& [letter, state] : {std::pair{'A', &a}, {'B', &b}})
    text += fmt::format("removed layers of {}: {}\n", letter, removed_text(*state));
  return text;
}

}  // namespace comera
