#include "model/dlrm/config.h"

#include <fmt/format.h>

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
  COMERA_CHECK(numbers >= 0 && width > 0, "a DLRM cannot have {} numbers and rows of {}", numbers, width);
  COMERA_CHECK(!tables.empty(), "a DLRM needs tables");
  for (std::size_t t = 0; t < tables.size(); ++t) {
    COMERA_CHECK(tables[t].rows > 0 && tables[t].rows < std::int64_t{1} << 31, "{}: {} rows are impossible",
                 table_name(t), tables[t].rows);
    if (tables[t].train) tables[t].train->validate(table_name(t), tables[t].rows, width);
  }
  COMERA_CHECK(lookup != LookupKind::naive, "a DLRM looks rows up by 'unique' or 'halves', not 'naive'");
  if (numbers > 0)
    check_layers("bottom", bottom, numbers, width, "the width of the tables' rows");
  else
    COMERA_CHECK(bottom.empty(), "bottom: there are no numbers that its layers could have");
  check_layers("top", top, features(), 1, "the logit");
  COMERA_CHECK(compute == DType::float32 || compute == DType::bfloat16 || compute == DType::float64,
               "a DLRM computes in float32, bfloat16 or float64, not in {}", name_of(compute));
}

DlrmConfig dense_twin(DlrmConfig config) {
  for (DlrmConfig::Table& table : config.tables) table.train.reset();
  for (auto* layers : {&config.bottom, &config.top})
    for (DlrmConfig::Layer& layer : *layers) layer.train.reset();
  return config;
}

std::string table_name(std::size_t table) { return fmt::format("table.{}", table); }
std::string bottom_name(std::size_t layer) { return fmt::format("bottom.{}", layer); }
std::string top_name(std::size_t layer) { return fmt::format("top.{}", layer); }

namespace {
using LayerName = std::string (*)(std::size_t);

// f(name, inputs, layer) of each, in forward order.
template <class F>
void for_each_layer(const std::vector<DlrmConfig::Layer>& layers, LayerName name, std::int64_t inputs,
                    const F& f) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    f(name(i), inputs, layers[i]);
    inputs = layers[i].outputs;
  }
}
}  // namespace

ModelTrains trains_of(const DlrmConfig& config) {
  ModelTrains model;
  const auto add = [&](const std::string& name, std::int64_t inputs, const DlrmConfig::Layer& layer) {
    if (!layer.train) return;
    ModelTrains::Train train{.name = name, .ranks = layer.train->ranks, .dense = inputs * layer.outputs};
    for (int k = 0; k < layer.train->order(); ++k) train.modes.push_back(layer.train->mode(k));
    model.trains.push_back(std::move(train));
  };
  for_each_layer(config.bottom, bottom_name, config.numbers, add);
  for (std::size_t t = 0; t < config.tables.size(); ++t) {
    const auto& shape = config.tables[t].train;
    if (!shape || shape->ranks.empty()) continue;
    ModelTrains::Train train{.name = table_name(t),
                             .ranks = shape->ranks,
                             .dense = config.tables[t].rows * config.width,
                             .stays = true};
    for (int k = 0; k < shape->order(); ++k)
      train.modes.push_back(shape->row_modes[k] * shape->column_modes[k]);
    model.trains.push_back(std::move(train));
  }
  for_each_layer(config.top, top_name, config.features(), add);
  model.ways.emplace_back();
  for (std::size_t i = 0; i < config.top.size(); ++i) model.ways.back().push_back(top_name(i));
  return model;
}

std::int64_t dense_parameters(const DlrmConfig& config) {
  std::int64_t elements = 0;
  const auto add = [&](const std::string&, std::int64_t inputs, const DlrmConfig::Layer& layer) {
    elements += (inputs + 1) * layer.outputs;
  };
  for_each_layer(config.bottom, bottom_name, config.numbers, add);
  for (const DlrmConfig::Table& table : config.tables) elements += table.rows * config.width;
  for_each_layer(config.top, top_name, config.features(), add);
  return elements;
}

}  // namespace comera
