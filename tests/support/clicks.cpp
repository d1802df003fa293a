#include "tests/support/clicks.h"

#include <random>

namespace comera::test {

DlrmConfig small_dlrm(bool tensorized, BagPooling pooling) {
  DlrmConfig config;
  config.dense_features = 3, config.width = 4, config.pooling = pooling;
  config.bottom = {{.outputs = 6, .train = {}}, {.outputs = 4, .train = {}}};
  config.tables = {{.rows = 7, .train = {}}, {.rows = 23, .train = {}}, {.rows = 1, .train = {}}};
  config.top = {{.outputs = 6, .train = {}}, {.outputs = 1, .train = {}}};  // of 4 + 6 features
  config.embedding_deviation = 0.7;
  config.compute = DType::float64;
  if (!tensorized) return config;
  config.bottom[1].train = TTShape{{2, 3}, {2, 2}, {2, 3, 2}};
  config.tables[0].train = TTMShape{{2, 2, 2}, {2, 1, 2}, {3, 2}};
  config.tables[1].train = TTMShape{{4, 6}, {2, 2}, {5}};
  config.top[0].train = TTShape{{2, 5}, {3, 2}, {2, 4, 2}};
  return config;
}

data::Clicks some_clicks(const DlrmConfig& config, const std::vector<std::int64_t>& right_rows, int examples,
                         std::uint32_t seed) {
  ClickCapacity capacity{.examples = examples + 2, .dense_features = config.dense_features, .tables = {}};
  for (const DlrmConfig::Table& table : config.tables)
    capacity.tables.push_back({.ids = 4 * capacity.examples, .unique_ids = table.rows});
  data::Clicks clicks(capacity, right_rows);
  std::mt19937 random(seed);
  for (int e = 0; e < examples; ++e) {
    std::vector<float> dense_features;
    for (std::int64_t i = 0; i < config.dense_features; ++i)
      dense_features.push_back(std::normal_distribution<float>()(random));
    std::vector<std::vector<std::int32_t>> bags;
    for (const DlrmConfig::Table& table : config.tables) {
      std::vector<std::int32_t> bag(random() % 5);
      for (std::int32_t& id : bag) id = static_cast<std::int32_t>(random() % table.rows);
      bags.push_back(bag);
    }
    clicks.add(dense_features, {bags.begin(), bags.end()}, random() % 3 == 0 ? 1.F : 0.F);
  }
  clicks.finish();
  return clicks;
}

}  // namespace comera::test
