#include "reports/rank_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>

#include "recipes/recipe.h"
#include "reports/model_report.h"
#include "reports/number_text.h"

namespace comera {

namespace {

using Ranks = std::vector<std::int64_t>;

bool has_zero(const Ranks& ranks) { return std::ranges::find(ranks, 0) != ranks.end(); }

// Elements of the cores of those ranks; 0 if a bond has none, for then nothing of the layer is kept.
std::int64_t core_elements(const Ranks& sizes, const Ranks& ranks) {
  if (has_zero(ranks)) return 0;
  std::int64_t total = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    total += (k == 0 ? 1 : ranks[k - 1]) * sizes[k] * (k + 1 == sizes.size() ? 1 : ranks[k]);
  return total;
}

// A layer that is not listed has been removed.
Ranks ranks_of(const LayerRanks& ranks, const ReportedLayer& layer) {
  const auto found = ranks.find(layer.name);
  return found != ranks.end() ? found->second : Ranks(layer.sizes.size() - 1, 0);
}

// "[12,8,8 | 8,8,12]" of "[12,8,8 | 8,8,12] ranks 12,30,30,30,12".
std::string modes_of(const std::string& text) { return text.substr(0, text.find(" ranks")); }

std::vector<ReportedLayer> layers_of(const EncoderConfig& config) {
  std::vector<ReportedLayer> layers;
  ReportedLayer embedding{EncoderConfig::embedding_layer, config.vocabulary * config.hidden};
  if (const auto shape = config.tensorized.embedding_shape()) {
    embedding.modes = modes_of(shape->text());
    for (int k = 0; k < shape->order(); ++k)
      embedding.sizes.push_back(shape->row_modes[k] * shape->column_modes[k]);
  }
  layers.push_back(std::move(embedding));
  for (const EncoderConfig::LinearLayer& linear : config.linear_layers()) {
    ReportedLayer layer{linear.name, linear.inputs * linear.outputs};
    if (linear.shape) {
      layer.modes = modes_of(linear.shape->text());
      for (int k = 0; k < linear.shape->order(); ++k) layer.sizes.push_back(linear.shape->mode(k));
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::int64_t elements_of(const CheckpointTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
}

// The cores in the file must be those that the recipe's modes and the ranks in the file make.
void check_cores(const CheckpointReader& reader, const ReportedLayer& layer) {
  const auto refuse = [&] {
    throw_error(fmt::format("{}: the cores of {} are not those that its recipe describes",
                            reader.path().string(), layer.name));
  };
  if (layer.held.size() + 1 != layer.sizes.size()) refuse();
  if (has_zero(layer.held)) return;
  for (std::size_t k = 0; k < layer.sizes.size(); ++k) {
    const CheckpointTensor& core = reader.tensor(fmt::format("/model/{}.core.{}", layer.name, k));
    const std::int64_t left = k == 0 ? 1 : layer.held[k - 1];
    const std::int64_t right = k + 1 == layer.sizes.size() ? 1 : layer.held[k];
    if (core.shape.front() != left || elements_of(core) != left * layer.sizes[k] * right) refuse();
  }
}

double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }
// Nothing is infinitely many times smaller, but no number says so.
std::string times(std::int64_t a, std::int64_t b) { return b == 0 ? "" : fmt::format("{:.1f}", ratio(a, b)); }

std::string ranks_text(const Ranks& ranks) {
  if (has_zero(ranks)) return "removed";
  return ranks.empty() ? "none" : fmt::format("{}", fmt::join(ranks, ","));
}

// Columns as wide as what is in them.
class Table {
 public:
  explicit Table(std::vector<std::string> titles) : right_(titles.size(), false) {
    rows_.push_back(std::move(titles));
  }
  void align_right(std::size_t first) {
    std::fill(right_.begin() + static_cast<long>(first), right_.end(), true);
  }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string text() const {
    std::vector<std::size_t> widths(right_.size(), 0);
    for (const auto& row : rows_)
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i)
        line += right_[i] ? fmt::format("{}{:>{}}", i == 0 ? "" : "  ", row[i], widths[i])
                          : fmt::format("{}{:<{}}", i == 0 ? "" : "  ", row[i], widths[i]);
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

// "encoder.3" of "encoder.3.ffn.up"; empty for what belongs to no block.
std::string block_of(const std::string& layer) {
  if (!layer.starts_with("encoder.")) return "";
  return layer.substr(0, layer.find('.', std::string("encoder.").size()));
}

// Calls row(name to show, layer) for every layer and head(block, its layers) before those of a block, so that
// many blocks remain readable.
template <class Layer>
void for_each_in_blocks(const std::vector<Layer>& layers,
                        const std::function<void(const std::string&, const std::vector<Layer>&)>& head,
                        const std::function<void(const std::string&, const Layer&)>& row,
                        const std::function<std::string(const Layer&)>& name) {
  std::string block;
  for (const Layer& layer : layers) {
    const std::string own = block_of(name(layer));
    if (own != block && !own.empty()) {
      std::vector<Layer> members;
      for (const Layer& other : layers)
        if (block_of(name(other)) == own) members.push_back(other);
      head(own, members);
    }
    block = own;
    row(own.empty() ? name(layer) : "  " + name(layer).substr(own.size() + 1), layer);
  }
}

// What the report shows of the ranks: a column for each stage.
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
    // Of a layer that came later, such as a new head, there is nothing but what the file holds.
    if (!stages.front().ranks.contains(layer.name))
      for (Stage& stage : stages) stage.ranks[layer.name] = layer.held;
  }
  const auto differs = [&](const ReportedLayer& layer) {
    return layer.tensorized() && ranks_of(stages.back().ranks, layer) != layer.live;
  };
  if (std::ranges::any_of(state.layers, differs)) stages.push_back({"now", live});
  return stages;
}

struct Totals {
  std::int64_t matrices = 0;    // of the tensorized layers
  std::int64_t tensorized = 0;  // how many there are
};

Totals totals_of(const CheckpointRanks& state) {
  Totals totals;
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

}  // namespace

bool ReportedLayer::removed() const { return tensorized() && has_zero(live); }
std::int64_t ReportedLayer::size() const { return tensorized() ? core_elements(sizes, live) : matrix; }

std::int64_t CheckpointRanks::size() const {
  std::int64_t total = 0;
  for (const ReportedLayer& layer : layers)
    if (layer.tensorized()) total += layer.size();
  return total;
}

std::int64_t CheckpointRanks::live_parameters() const {
  std::int64_t total = parameters;
  for (const ReportedLayer& layer : layers)
    if (layer.tensorized()) total -= core_elements(layer.sizes, layer.held) - layer.size();
  return total;
}

std::vector<std::string> CheckpointRanks::removed() const {
  std::vector<std::string> names;
  for (const ReportedLayer& layer : layers)
    if (layer.removed()) names.push_back(layer.name);
  return names;
}

CheckpointRanks checkpoint_ranks(const CheckpointReader& reader) {
  const std::string file = reader.path().string();
  const Recipe recipe = parse_stored_recipe(reader.text("/recipe", "toml"), file);
  const EncoderConfig config = encoder_config(recipe, reader.integer("/data", "vocabulary"));
  CheckpointRanks state;
  state.name = file;
  state.step = reader.integer("/trainer", "step");
  state.layers = layers_of(config);
  state.history = load_rank_history(reader);
  state.dense_twin = dense_parameters(config);
  for (const CheckpointTensor& tensor : reader.tensors())
    if (tensor.path.starts_with("/model/") &&
        reader.text(tensor.path, "role") != name_of(ParameterRole::gate))
      state.parameters += elements_of(tensor);
  const LayerRanks held = held_ranks(reader), live = live_ranks(reader);
  std::int64_t size = 0;
  for (ReportedLayer& layer : state.layers) {
    if (!layer.tensorized()) continue;
    layer.held = ranks_of(held, layer);
    layer.live = ranks_of(live, layer);
    check_cores(reader, layer);
    size += core_elements(layer.sizes, layer.held);
  }
  state.initial_size = state.history.initial_size > 0 ? state.history.initial_size : size;
  return state;
}

std::string rank_report(const CheckpointRanks& state) {
  const Totals totals = totals_of(state);
  if (totals.tensorized == 0) return "every layer is dense: there are no ranks\n";
  const std::vector<Stage> stages = stages_of(state);
  std::vector<ReportedLayer> trains;
  std::ranges::copy_if(state.layers, std::back_inserter(trains), &ReportedLayer::tensorized);
  const auto before = [&](const ReportedLayer& layer) {
    return core_elements(layer.sizes, ranks_of(stages.front().ranks, layer));
  };

  std::vector<std::string> titles{"layer", "modes"};
  for (const Stage& stage : stages) titles.push_back(stage.title);
  const std::size_t numbers = titles.size();
  titles.insert(titles.end(), {"before", "after", "times fewer"});
  Table table(titles);
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
        std::vector<std::string> row{name, layer.modes};
        for (const Stage& stage : stages) row.push_back(ranks_text(ranks_of(stage.ranks, layer)));
        row.insert(row.end(),
                   {grouped(before(layer)), grouped(layer.size()), times(layer.matrix, layer.size())});
        table.add(row);
      },
      [](const ReportedLayer& layer) { return layer.name; });

  const std::int64_t size = state.size(), live = state.live_parameters();
  const std::int64_t whole_before = live - size + state.initial_size;
  std::string text = table.text();
  text +=
      "\nbefore, after: elements of the cores, counting live ranks only; times fewer than the dense matrix\n";
  if (state.history.stages.empty())
    text += "the file has no history of its ranks: 'before' is what it holds now\n";
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("{:<28}{}\n", what, value);
  };
  text += "\n";
  line("tensorized layers (S)", fmt::format("{} -> {}, S/S_init = {:.4f}", grouped(state.initial_size),
                                            grouped(size), ratio(size, state.initial_size)));
  line("  as matrices",
       fmt::format("{}: {} -> {} times fewer", grouped(totals.matrices),
                   times(totals.matrices, state.initial_size), times(totals.matrices, size)));
  line("whole model, live ranks", fmt::format("{} -> {} parameters, {} -> {} as fp32", grouped(whole_before),
                                              grouped(live), megabytes(whole_before), megabytes(live)));
  line("  its dense twin", fmt::format("{} parameters, {}: {} -> {} times fewer", grouped(state.dense_twin),
                                       megabytes(state.dense_twin), times(state.dense_twin, whole_before),
                                       times(state.dense_twin, live)));
  line("in this file",
       fmt::format("{} parameters, {} as fp32", grouped(state.parameters), megabytes(state.parameters)));
  line("removed layers", removed_text(state));
  return text;
}

namespace {

// A layer of two models; either may lack it.
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

std::string ranks_text(const std::optional<ReportedLayer>& layer) {
  if (!layer) return "-";
  return layer->tensorized() ? ranks_text(layer->live) : "dense";
}

std::string size_text(const std::optional<ReportedLayer>& layer) {
  return layer ? grouped(layer->size()) : "-";
}

// B for each number of A.
std::string ratio_text(std::int64_t a, std::int64_t b) {
  return a == 0 ? "" : fmt::format("{:.3f}", ratio(b, a));
}

}  // namespace

std::string rank_comparison(const CheckpointRanks& a, const CheckpointRanks& b) {
  const std::vector<LayerPair> pairs = pairs_of(a, b);
  std::string text = fmt::format("A: {}, step {}\nB: {}, step {}\n\n", a.name, a.step, b.name, b.step);
  Table table({"layer", "modes", "ranks of A", "ranks of B", "cores of A", "cores of B", "B / A"});
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
        table.add({name, modes_of(pair), ranks_text(pair.a), ranks_text(pair.b), size_text(pair.a),
                   size_text(pair.b), pair.a && pair.b ? ratio_text(pair.a->size(), pair.b->size()) : ""});
      },
      [](const LayerPair& pair) { return pair.name; });
  if (!pairs.empty()) text += table.text() + "\n";

  Table totals({"live ranks only", "A", "B", "B / A"});
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
  words("times fewer than dense", times(a.dense_twin, a.live_parameters()),
        times(b.dense_twin, b.live_parameters()));
  count("parameters in the file", a.parameters, b.parameters);
  text += totals.text();
  for (const auto& [letter, state] : {std::pair{'A', &a}, {'B', &b}})
    text += fmt::format("removed layers of {}: {}\n", letter, removed_text(*state));
  return text;
}

}  // namespace comera
