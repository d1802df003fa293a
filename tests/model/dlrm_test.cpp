#include "model/dlrm/dlrm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "model/dlrm/click_micro_batches.h"
#include "tests/support/clicks.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

using Case = std::tuple<bool, BagPooling, LookupKind>;
class DlrmModel : public testing::TestWithParam<Case> {
 protected:
  static DlrmConfig config() {
    const auto [tensorized, pooling, lookup] = GetParam();
    DlrmConfig config = small_dlrm(tensorized, pooling);
    config.lookup = lookup;
    return config;
  }
};

TEST_P(DlrmModel, GradientsAgreeWithCentralDifferences) {
  Dlrm model(config(), host_allocator(), true);
  model.parameters().initialize(11);
  Harness harness(reference_backend());
  const data::Clicks clicks = some_clicks(config(), model.right_rows(), 9);
  ClickBatch batch(host_allocator(), clicks.arrays().capacity);
  std::ranges::copy(clicks.block(), static_cast<std::byte*>(batch.block()));
  const Step step{harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true};
  const auto loss = [&] {
    harness.results() = StepResults{};
    model.run_micro_batch(step, batch, false);
    return harness.results().loss_sum;
  };
  const double before = loss();
  EXPECT_EQ(harness.results().target_count, 9);
  model.run_micro_batch(step, batch, true);
  EXPECT_DOUBLE_EQ(harness.results().loss_sum, 2 * before);
  ParameterStore& store = model.parameters();
  for (const ParameterId id : store.layout())
    EXPECT_LT(finite_difference_error(store.value(id), store.gradient(id), loss, 12, 1e-6), 1e-6)
        << store.info(id).name;
}

// The formula of Naumov et al., written out for one example after the other, from the densified parameters.
double loss_by_hand(const DlrmConfig& config, const std::vector<std::vector<double>>& tables,
                    const std::vector<std::pair<std::vector<double>, std::vector<double>>>& bottom,
                    const std::vector<std::pair<std::vector<double>, std::vector<double>>>& top,
                    const ClickBatch& batch) {
  const auto layer = [](const std::vector<double>& x, const auto& weights, bool relu) {
    const auto& [matrix, bias] = weights;
    std::vector<double> y = bias;
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[i] * matrix[i * y.size() + j];
    if (relu)
      for (double& value : y) value = std::max(value, 0.0);
    return y;
  };
  double loss = 0;
  for (std::int32_t b = 0; b < *batch.counts.data<std::int32_t>(); ++b) {
    const float* dense_features = batch.dense_features.data<float>() + b * config.dense_features;
    std::vector<double> x(dense_features, dense_features + config.dense_features);
    for (const auto& weights : bottom) x = layer(x, weights, true);
    std::vector<std::vector<double>> vectors{x};
    for (std::size_t t = 0; t < tables.size(); ++t) {
      const std::int32_t* offsets = batch.tables[t].offsets.data<std::int32_t>();
      std::vector<double> sum(config.width, 0.0);
      for (std::int32_t i = offsets[b]; i < offsets[b + 1]; ++i)
        for (std::int64_t d = 0; d < config.width; ++d)
          sum[d] += tables[t][batch.tables[t].ids.ids.data<std::int32_t>()[i] * config.width + d];
      if (config.pooling == BagPooling::mean && offsets[b + 1] > offsets[b])
        for (double& value : sum) value /= offsets[b + 1] - offsets[b];
      vectors.push_back(sum);
    }
    for (std::size_t i = 1; i < vectors.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        x.push_back(std::inner_product(vectors[i].begin(), vectors[i].end(), vectors[j].begin(), 0.0));
    for (std::size_t i = 0; i < top.size(); ++i) x = layer(x, top[i], i + 1 < top.size());
    loss += std::log(1 + std::exp(x[0])) - batch.labels.data<float>()[b] * x[0];
  }
  return loss;
}

TEST_P(DlrmModel, IsThePublishedFormula) {
  Dlrm model(config(), host_allocator(), false);
  model.parameters().initialize(5);
  Harness harness(reference_backend());
  const data::Clicks clicks = some_clicks(config(), model.right_rows(), 20);
  ClickBatch batch(host_allocator(), clicks.arrays().capacity);
  std::ranges::copy(clicks.block(), static_cast<std::byte*>(batch.block()));
  const Step step{harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(),
                  false};
  model.run_micro_batch(step, batch, false);
  std::vector<std::vector<double>> tables;
  for (const auto& table : model.tables()) tables.push_back(table->table());
  const auto layers = [&](const auto& of) {
    std::vector<std::pair<std::vector<double>, std::vector<double>>> list;
    for (const auto& linear : of)
      list.emplace_back(linear->matrix(), read_tensor(model.parameters().value(linear->bias())));
    return list;
  };
  EXPECT_NEAR(harness.results().loss_sum,
              loss_by_hand(config(), tables, layers(model.bottom()), layers(model.top()), batch), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(All, DlrmModel,
                         testing::Combine(testing::Bool(), testing::Values(BagPooling::sum, BagPooling::mean),
                                          testing::Values(LookupKind::unique, LookupKind::factors)));

// Padding and the order of examples do not matter: the same examples in two batches of other capacities.
TEST(DlrmMicroBatches, MayBeDividedAsOneLikes) {
  const DlrmConfig config = small_dlrm(true, BagPooling::sum);
  Dlrm model(config, host_allocator(), true);
  model.parameters().initialize(7);
  Harness harness(reference_backend());
  const Step step{harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true};
  const data::Clicks whole = some_clicks(config, model.right_rows(), 10);
  const ClickBatch& from = whole.arrays();
  const auto run = [&](const data::Clicks& clicks) {
    ClickBatch batch(host_allocator(), clicks.arrays().capacity);
    std::ranges::copy(clicks.block(), static_cast<std::byte*>(batch.block()));
    model.run_micro_batch(step, batch, true);
  };
  run(whole);
  const double loss = harness.results().loss_sum;
  const std::vector<double> gradient = read_tensor(model.parameters().gradients());
  std::ranges::fill(std::span(model.parameters().gradients().data<double>(), gradient.size()), 0.0);
  harness.results() = StepResults{};
  for (const std::int32_t first : {0, 4}) {
    ClickCapacity capacity = from.capacity;
    capacity.examples = first == 0 ? 4 : 8;
    data::Clicks part(capacity, model.right_rows());
    for (std::int32_t b = first; b < (first == 0 ? 4 : 10); ++b) {
      std::vector<std::span<const std::int32_t>> bags;
      for (const ClickBatch::Table& table : from.tables) {
        const auto *ids = table.ids.ids.data<std::int32_t>(), *offsets = table.offsets.data<std::int32_t>();
        bags.emplace_back(ids + offsets[b], ids + offsets[b + 1]);
      }
      part.add({from.dense_features.data<float>() + b * config.dense_features,
                static_cast<std::size_t>(config.dense_features)},
               bags, from.labels.data<float>()[b]);
    }
    part.finish();
    run(part);
  }
  EXPECT_NEAR(harness.results().loss_sum, loss, 1e-12);
  EXPECT_LT(relative_error(read_tensor(model.parameters().gradients()), gradient), 1e-13);
}

TEST(DlrmConfig, RefusesWhatDoesNotFit) {
  const auto message = [](const std::function<void(DlrmConfig&)>& change) -> std::string {
    DlrmConfig config = small_dlrm(true, BagPooling::sum);
    change(config);
    try {
      config.validate();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([](DlrmConfig&) {}), "");
  EXPECT_NE(
      message([](DlrmConfig& c) { c.bottom.back().outputs = 5; }).find("the last layer must have 4 outputs"),
      std::string::npos);
  EXPECT_NE(message([](DlrmConfig& c) { c.top.back().outputs = 2; }).find("the logit"), std::string::npos);
  EXPECT_NE(message([](DlrmConfig& c) { c.tables.clear(); }).find("needs tables"), std::string::npos);
  EXPECT_NE(message([](DlrmConfig& c) { c.tables[1].rows = 25; }).find("table.1: the row modes"),
            std::string::npos);
  EXPECT_NE(message([](DlrmConfig& c) { c.lookup = LookupKind::naive; }).find("not 'naive'"),
            std::string::npos);
}

TEST(ClickMicroBatch, RefusesABlockOfAnotherCapacity) {
  const DlrmConfig config = small_dlrm(false, BagPooling::sum);
  const Dlrm model(config, host_allocator(), true);
  const data::Clicks clicks = some_clicks(config, model.right_rows(), 4),
                     others = some_clicks(config, model.right_rows(), 5);
  const auto micro_batch = ClickMicroBatches(model, clicks.arrays().capacity).allocate(host_allocator());
  EXPECT_NO_THROW(micro_batch->check(clicks.block()));
  EXPECT_THROW(micro_batch->check(others.block()), Error);
}

}  // namespace
}  // namespace comera::test
