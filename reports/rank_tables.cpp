#include "reports/rank_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace comera {

std::string block_of(const std::string& layer) {
  if (!layer.starts_with("encoder.")) return "";
  return layer.substr(0, layer.find('.', std::string("encoder.").size()));
}

std::string ranks_text(const std::vector<std::int64_t>& ranks) {
  if (std::ranges::find(ranks, 0) != ranks.end()) return "removed";
  return ranks.empty() ? "none" : fmt::format("{}", fmt::join(ranks, ","));
}

double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

std::string times(std::int64_t a, std::int64_t b) { return b == 0 ? "" : fmt::format("{:.1f}", ratio(a, b)); }

TrainTotals totals_of(const CheckpointRanks& state) {
  TrainTotals totals;
  for (const ReportedLayer& layer : state.layers)
    if (layer.tensorized()) {
      totals.matrices += layer.matrix;
      ++totals.tensorized;
    }
  return totals;
}

std::string removed_text(const CheckpointRanks& state) {
  const std::vector<std::string> names = state.removed();
  std::string text = fmt::format("{} of {}", names.size(), totals_of(state).tensorized);
  if (!names.empty()) text += fmt::format(": {}", fmt::join(names, ", "));
  return text;
}

}  // namespace comera
