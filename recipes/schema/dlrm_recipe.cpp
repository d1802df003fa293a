#include <fmt/ranges.h>

#include <set>

#include "kernels/core/check.h"
#include "recipes/recipe.h"
#include "tensorized/decomposition/factorize.h"

namespace comera {

namespace {

std::vector<std::int64_t> rows_of(const DlrmSection& section, const std::vector<std::int64_t>& data) {
  if (section.tables.empty()) {
    if (data.empty())
      throw UsageError(
          "dlrm.tables is empty, so the data decide them, but there are no data: give --data FOLDER of "
          "shards, --set 'dlrm.tables=[1000, 50]' --set dlrm.dense_features=13, or a run instead of the "
          "recipe");
    return data;
  }
  bool fits = data.empty() || data.size() == section.tables.size();
  for (std::size_t t = 0; fits && t < data.size(); ++t) fits = data[t] <= section.tables[t];
  if (!fits)
    throw UsageError(
        fmt::format("the data have ids for {} tables of [{}] rows, which do not fit into dlrm.tables = [{}]; "
                    "give larger ones, or take those of the data: --set 'dlrm.tables=[]'",
                    data.size(), fmt::join(data, ", "), fmt::join(section.tables, ", ")));
  return section.tables;
}

std::int64_t numeric_columns_of(const DlrmSection& section, std::optional<std::int64_t> data) {
  const std::int64_t dense_features = section.dense_features.value_or(data.value_or(0));
  if (data && *data != dense_features)
    throw UsageError(fmt::format(
        "the data have {0} dense features per example, but dlrm.dense_features = {1}: set it to {0}, or "
        "remove it from the recipe",
        *data, dense_features));
  return dense_features;
}

// Gives single layers their ranks from the recipe.
class OwnRanks {
 public:
  explicit OwnRanks(const LayerRanks& ranks) : ranks_(ranks) {}

  template <class Shape>
  void give(const std::string& name, std::optional<Shape>& shape) {
    const auto own = ranks_.find(name);
    if (own == ranks_.end()) return;
    if (!shape || own->second.size() != shape->ranks.size())
      throw UsageError(fmt::format("tensorized.ranks.{0} has {1} ranks, but {0} has {2}", name,
                                   own->second.size(),
                                   shape ? fmt::format("{} cores", shape->order()) : "no tensor train"));
    shape->ranks = own->second;
    given_.insert(name);
  }
  void require_all_given() const {
    for (const auto& [name, ranks] : ranks_)
      if (!given_.contains(name))
        throw UsageError(fmt::format("tensorized.ranks.{0}: the model has no {0}", name));
  }

 private:
  const LayerRanks& ranks_;
  std::set<std::string> given_;
};

}  // namespace

DlrmConfig dlrm_config(const Recipe& recipe, std::optional<std::int64_t> dense_features,
                       const std::vector<std::int64_t>& rows) {
  if (!recipe.dlrm)
    throw UsageError("the recipe has no [dlrm], so it describes an encoder; use `comera pretrain`");
  const DlrmSection& section = *recipe.dlrm;
  DlrmConfig config;
  config.dense_features = numeric_columns_of(section, dense_features);
  config.width = section.width;
  config.embedding_deviation = section.embedding_std;
  config.sparse_updates = section.sparse_updates;
  config.lookup = recipe.tensorized.lookup;
  config.plan = recipe.tensorized.plan;
  config.compute = recipe.precision.activations();
  const bool trains = recipe.tensorized.enabled;
  OwnRanks own(recipe.tensorized.ranks);
  for (const std::int64_t height : rows_of(section, rows)) {
    DlrmConfig::Table table{.rows = height, .train = {}};
    if (trains && section.table_rank > 0)
      table.train =
          factorize_table(height, section.width, static_cast<int>(section.table_cores), section.table_rank);
    if (trains) own.give(table_name(config.tables.size()), table.train);
    config.tables.push_back(std::move(table));
  }
  const auto layers = [&](std::string (*name)(std::size_t), std::int64_t inputs,
                          std::vector<std::int64_t> outputs, std::int64_t last, bool scores) {
    std::vector<DlrmConfig::Layer> made;
    outputs.push_back(last);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      DlrmConfig::Layer layer{.outputs = outputs[i], .train = {}};
      const bool answer = scores && i + 1 == outputs.size();
      if (trains && section.layer_rank > 0 && !answer)
        layer.train = factorize_layer(inputs, outputs[i], section.layer_rank);
      if (trains) own.give(name(i), layer.train);
      inputs = outputs[i];
      made.push_back(std::move(layer));
    }
    return made;
  };
  if (config.dense_features > 0)
    config.bottom = layers(bottom_name, config.dense_features, section.bottom, section.width, false);
  config.top = layers(top_name, config.features(), section.top, 1, true);
  if (trains) own.require_all_given();
  try {
    config.validate();
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  return config;
}

}  // namespace comera
