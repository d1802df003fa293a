#include "reports/checkpoint_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "recipes/encoder_config.h"
#include "recipes/recipe.h"
#include "reports/model_report.h"

namespace comera {

namespace {

using Ranks = std::vector<std::int64_t>;

bool has_zero(const Ranks& ranks) { return std::ranges::find(ranks, 0) != ranks.end(); }

// "[12,8,8 | 8,8,12]" of "[12,8,8 | 8,8,12] ranks 12,30,30,30,12" or "… removed".
std::string modes_of(const std::string& text) {
  return text.substr(0, std::min(text.find(" ranks"), text.find(" removed")));
}

std::vector<ReportedLayer> layers_of(const EncoderConfig& config) {
  std::vector<ReportedLayer> layers;
  ReportedLayer embedding{EncoderConfig::embedding_layer, config.vocabulary * config.token_columns()};
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

std::vector<ReportedLayer> layers_of_click_model(const DlrmConfig& config) {
  std::vector<ReportedLayer> layers;
  for (const DlrmLayer& from : layers_of(config)) {
    ReportedLayer layer{from.name, from.inputs * from.outputs};
    layer.modes = modes_of(from.shape);
    layer.sizes = from.modes;
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::int64_t elements_of(const CheckpointTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
}

// The cores in the file must match the recipe's modes and the ranks in the file.
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

}  // namespace

std::int64_t ReportedLayer::core_elements(const Ranks& ranks) const {
  if (has_zero(ranks)) return 0;
  std::int64_t total = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    total += (k == 0 ? 1 : ranks[k - 1]) * sizes[k] * (k + 1 == sizes.size() ? 1 : ranks[k]);
  return total;
}

Ranks ReportedLayer::ranks_in(const LayerRanks& all) const {
  const auto found = all.find(name);
  return found != all.end() ? found->second : Ranks(sizes.size() - 1, 0);
}

bool ReportedLayer::removed() const { return tensorized() && has_zero(live); }
std::int64_t ReportedLayer::size() const { return tensorized() ? core_elements(live) : matrix; }

std::int64_t CheckpointRanks::size() const {
  std::int64_t total = 0;
  for (const ReportedLayer& layer : layers)
    if (layer.tensorized()) total += layer.size();
  return total;
}

std::int64_t CheckpointRanks::live_parameters() const {
  std::int64_t total = parameters;
  for (const ReportedLayer& layer : layers)
    if (layer.tensorized()) total -= layer.core_elements(layer.held) - layer.size();
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
  CheckpointRanks state;
  state.name = file;
  state.step = reader.integer("/trainer", "step");
  state.history = load_rank_history(reader);
  if (recipe.dlrm) {
    const DlrmConfig config = dlrm_config(recipe);
    state.layers = layers_of_click_model(config);
    state.dense_baseline = dense_parameters(config);
  } else {
    const EncoderConfig config = encoder_config(recipe, reader.integer("/data", "vocabulary"));
    state.layers = layers_of(config);
    state.dense_baseline = dense_parameters(config);
  }
  for (const CheckpointTensor& tensor : reader.tensors())
    if (tensor.path.starts_with("/model/") &&
        reader.text(tensor.path, "role") != name_of(ParameterRole::gate))
      state.parameters += elements_of(tensor);
  const LayerRanks held = held_ranks(reader), live = live_ranks(reader);
  std::int64_t size = 0;
  for (ReportedLayer& layer : state.layers) {
    if (!layer.tensorized()) continue;
    layer.held = layer.ranks_in(held);
    layer.live = layer.ranks_in(live);
    check_cores(reader, layer);
    size += layer.core_elements(layer.held);
  }
  state.initial_size = state.history.initial_size > 0 ? state.history.initial_size : size;
  return state;
}

}  // namespace comera
