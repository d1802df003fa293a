#include "model/dlrm/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/core/check.h"

namespace comera {

std::int64_t DlrmConfig::features() const {
  const auto tables_count = static_cast<std::int64_t>(tables.size());
  return width + tables_count * (tables_count + 1) / 2;
}

double DlrmConfig::deviation_of(const Table& table) const {
  return embedding_deviation > 0 ? embedding_deviation : 1 / std::sqrt(3 * static_cast<double>(table.rows));
}

namespace {
void check_layers(const char* name, const std::vector<DlrmConfig::Layer>& layers, std::int64_t inputs,
                  std::int64_t outputs, const char* why) {
  COMERA_CHECK(!layers.empty() && layers.back().outputs == outputs,
               "{}: the last layer must have {} outputs, {}", name, outputs, why);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    COMERA_CHECK(layers[i].outputs > 0, "{}.{}: a layer needs outputs", name, i);
    if (layers[i].train) layers[i].train->validate(fmt::format("{}.{}", name, i), inputs, layers[i].outputs);
    inputs = layers[i].outputs;
  }
}
}  // namespace

void DlrmConfig::validate() const {
  COMERA_CHECK(dense_features >= 0 && width > 0, "a DLRM cannot have {} dense features and rows of {}",
               dense_features, width);
  COMERA_CHECK(!tables.empty(), "a DLRM needs tables");
  for (std::size_t t = 0; t < tables.size(); ++t) {
    COMERA_CHECK(tables[t].rows > 0 && tables[t].rows < std::int64_t{1} << 31, "{}: {} rows are impossible",
                 table_name(t), tables[t].rows);
    if (tables[t].train) tables[t].train->validate(table_name(t), tables[t].rows, width);
  }
  COMERA_CHECK(lookup != LookupKind::naive, "a DLRM looks rows up by 'unique' or 'factors', not 'naive'");
  if (dense_features > 0)
    check_layers("bottom", bottom, dense_features, width, "the width of the tables' rows");
  else
    COMERA_CHECK(bottom.empty(), "bottom: the model has no dense features for its layers");
  check_layers("top", top, features(), 1, "the logit");
  COMERA_CHECK(compute == DType::float32 || compute == DType::bfloat16 || compute == DType::float64,
               "a DLRM computes in float32, bfloat16 or float64, not in {}", name_of(compute));
}

DlrmConfig dense_baseline(DlrmConfig config) {
  for (DlrmConfig::Table& table : config.tables) table.train.reset();
  for (auto* layers : {&config.bottom, &config.top})
    for (DlrmConfig::Layer& layer : *layers) layer.train.reset();
  return config;
}

std::vector<std::int64_t> rows_of(const DlrmConfig& config) {
  std::vector<std::int64_t> rows;
  for (const DlrmConfig::Table& table : config.tables) rows.push_back(table.rows);
  return rows;
}

std::string table_name(std::size_t table) { return fmt::format("table.{}", table); }
std::string bottom_name(std::size_t layer) { return fmt::format("bottom.{}", layer); }
std::string top_name(std::size_t layer) { return fmt::format("top.{}", layer); }

namespace {

DlrmLayer table_layer(const DlrmConfig& config, std::size_t t) {
  const DlrmConfig::Table& table = config.tables[t];
  DlrmLayer layer{.name = table_name(t), .inputs = table.rows, .outputs = config.width, .is_table = true};
  if (!table.train) return layer;
  layer.shape = table.train->text();
  layer.ranks = table.train->ranks;
  for (int k = 0; k < table.train->order(); ++k)
    layer.modes.push_back(table.train->row_modes[k] * table.train->column_modes[k]);
  return layer;
}

void add_layers(const std::vector<DlrmConfig::Layer>& from, std::string (*name)(std::size_t),
                std::int64_t inputs, std::vector<DlrmLayer>& to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    DlrmLayer& layer =
        to.emplace_back(DlrmLayer{.name = name(i), .inputs = inputs, .outputs = from[i].outputs});
    inputs = layer.outputs;
    if (!from[i].train) continue;
    layer.shape = from[i].train->text();
    layer.ranks = from[i].train->ranks;
    for (int k = 0; k < from[i].train->order(); ++k) layer.modes.push_back(from[i].train->mode(k));
  }
}

}  // namespace

std::int64_t DlrmLayer::parameters() const {
  std::int64_t count = modes.empty() ? inputs * outputs : 0, left = 1;
  for (std::size_t k = 0; k < modes.size(); ++k) {
    const std::int64_t right = k < ranks.size() ? ranks[k] : 1;
    count += left * modes[k] * right;
    left = right;
  }
  const bool removed = std::ranges::find(ranks, 0) != ranks.end();
  return (removed ? 0 : count) + (is_table ? 0 : outputs);
}

std::int64_t DlrmLayer::dense_parameters() const { return inputs * outputs + (is_table ? 0 : outputs); }

std::vector<DlrmLayer> layers_of(const DlrmConfig& config) {
  std::vector<DlrmLayer> layers;
  add_layers(config.bottom, bottom_name, config.dense_features, layers);
  for (std::size_t t = 0; t < config.tables.size(); ++t) layers.push_back(table_layer(config, t));
  add_layers(config.top, top_name, config.features(), layers);
  return layers;
}

ModelTensorTrains trains_of(const DlrmConfig& config) {
  ModelTensorTrains model;
  for (const DlrmLayer& layer : layers_of(config))
    if (!layer.ranks.empty())
      model.trains.push_back({.name = layer.name,
                              .modes = layer.modes,
                              .ranks = layer.ranks,
                              .dense = layer.inputs * layer.outputs,
                              .stays = layer.is_table});
  model.ways.emplace_back();
  for (std::size_t i = 0; i < config.top.size(); ++i) model.ways.back().push_back(top_name(i));
  return model;
}

std::int64_t dense_parameters(const DlrmConfig& config) {
  std::int64_t elements = 0;
  for (const DlrmLayer& layer : layers_of(config)) elements += layer.dense_parameters();
  return elements;
}

}  // namespace comera
