#include <gtest/gtest.h>

#include <functional>

#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "tensorized/linear/lte_linear.h"
#include "tests/model/configs.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

using Case = std::tuple<bool, HeadKind, NormPlacement, Positions>;
class WholeModel : public testing::TestWithParam<Case> {
 protected:
  static EncoderConfig config() {
    const auto [tensorized, head, norm, positions] = GetParam();
    EncoderConfig config = small_config(tensorized, head, norm);
    config.positions = positions;
    return config;
  }
};

// The gradient of every parameter that is trained, with dropout and padding, against central differences of
// the loss. prepare(model, context): before it.
void expect_gradients(const EncoderConfig& config,
                      const std::function<void(Model&, const Context&)>& prepare = nullptr) {
  Model model(config, host_allocator(), true);
  model.parameters().initialize(11);
  Harness harness(reference_backend());
  if (prepare) prepare(model, harness.context());
  harness.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
  const PackedBatch batch = random_batch({7, 3, 1, 10}, 29, model.token_embedding().right_rows());
  const EncoderStep step(
      {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true}, batch);
  const auto loss = [&] {
    harness.results() = StepResults{};
    model.run_micro_batch(step, false);
    return harness.results().loss_sum;
  };
  const double before = loss();
  model.run_micro_batch(step, true);
  EXPECT_DOUBLE_EQ(harness.results().loss_sum, 2 * before);
  ParameterStore& store = model.parameters();
  for (const ParameterId id : store.layout())
    EXPECT_LT(finite_difference_error(store.value(id), store.gradient(id), loss), 1e-6)
        << store.info(id).name;
}

TEST_P(WholeModel, GradientsAgreeWithCentralDifferences) { expect_gradients(config()); }

// The same without layers of the last block, which computes what the head reads alone.
TEST(RemovedFromTheLastBlock, GradientsAgreeWithCentralDifferences) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification})
    for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre})
      expect_gradients(removed_from_last(head, norm));
}

// The same with biases by distance, which have no gradient, between the factors and with queries that are
// formed.
TEST(BiasesByDistance, GradientsAgreeWithCentralDifferences) {
  for (const bool tensorized : {false, true})
    for (const HeadKind head : {HeadKind::mlm, HeadKind::classification}) {
      EncoderConfig config = small_config(tensorized, head);
      config.relative_buckets = 8;
      if (tensorized) config.tensorized.attention->ranks = {3, 3, 3};
      expect_gradients(config, [](Model& model, const Context&) {
        const ParameterStore& store = model.parameters();
        const Tensor biases = store.value(*store.find("embedding.relative_bias"));
        write_tensor(biases, normal_values(biases.elements(), 7));
      });
    }
}

// The same of tables that are narrower than the encoder.
TEST(NarrowTables, GradientsAgreeWithCentralDifferences) {
  for (const bool tensorized : {false, true})
    for (const HeadKind head : {HeadKind::mlm, HeadKind::classification})
      for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre})
        expect_gradients(narrow_config(tensorized, head, norm));
}

// The same of a projection behind the embedding's train, by all kinds of lookup.
TEST(ProjectedTable, GradientsAgreeWithCentralDifferences) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification})
    for (const LookupKind lookup : {LookupKind::naive, LookupKind::unique, LookupKind::factors}) {
      EncoderConfig config = projected_config(head);
      config.tensorized.lookup = lookup;
      expect_gradients(config);
    }
  expect_gradients(projected_config(HeadKind::mlm, NormPlacement::pre));
  EncoderConfig both = narrow_config();  // tables of 8 columns, projected from 4
  both.tensorized.embedding =
      TTMShape{.row_modes = {4, 2, 4}, .column_modes = {2, 2, 1}, .ranks = {5, 4}, .projection = true};
  expect_gradients(both);
}

// The same of a table whose frequent ids have rows of their own.
TEST(FrequentRows, GradientsAgreeWithCentralDifferences) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification})
    expect_gradients(frequent_config(head));
  EncoderConfig projected = projected_config();
  projected.tensorized.embedding->frequent_rows = 28;  // all ids but one
  expect_gradients(projected);
}

// The same with diagonals beside the trains, also where trains are removed.
TEST(Diagonals, GradientsAgreeWithCentralDifferences) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification})
    for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre}) {
      EncoderConfig config = diagonal_config(head, norm);
      expect_gradients(config);
      for (const char* layer : {"encoder.0.attention.key", "encoder.0.attention.output", "encoder.0.ffn.up",
                                "encoder.1.attention.query", "encoder.1.attention.key",
                                "encoder.1.attention.value", "encoder.1.ffn.down"})
        config.tensorized.ranks[layer] = {0, 0, 0};
      expect_gradients(config);
    }
}

// The same of layers that are products of two factors.
TEST(LowRankModel, GradientsAgreeWithCentralDifferences) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification})
    for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre}) {
      EncoderConfig config = small_config(false, head, norm);
      config.low_rank = LowRankForm{.rank = 3};
      expect_gradients(config);
    }
}

// The same of adapters, and of what else is trained beside them, after a merge and an update that followed
// it.
TEST(LteModel, GradientsAgreeWithCentralDifferences) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification})
    for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre}) {
      EncoderConfig config = small_config(false, head, norm);
      config.lte = LteForm{.lora_r = 3, .lora_alpha = 5, .num_heads = 2};
      expect_gradients(config, [](Model& model, const Context& context) {
        ParameterStore& store = model.parameters();
        const auto move_adapters = [&](std::uint64_t seed) {
          for (const ParameterId id : store.layout())
            if (LteLinear::is_adapter(store.info(id).name)) {
              std::vector<double> values = read_tensor(store.value(id));
              const std::vector<double> by = normal_values(std::ssize(values), seed + id);
              for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.2 * by[i];
              write_tensor(store.value(id), values);
            }
        };
        move_adapters(100);
        model.consolidate(context);
        move_adapters(200);
      });
    }
}

// The same for a head that compares sequences by twos, of which an odd number has room.
TEST(PairsOfSequences, GradientsAgreeWithCentralDifferences) {
  for (const HeadKind head : {HeadKind::classification, HeadKind::regression})
    for (const Pooling pooling : {Pooling::first, Pooling::mean}) {
      EncoderConfig config = small_config(true, head);
      config.pairs = PairEncoding::separate;
      config.pooling = pooling;
      Model model(config, host_allocator(), true);
      model.parameters().initialize(11);
      Harness harness(reference_backend());
      harness.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
      const PackedBatch batch = random_batch({7, 3, 1, 10}, 29, model.token_embedding().right_rows());
      ASSERT_EQ(batch.capacity.sequences, 5);
      batch.counts.data<std::int32_t>()[4] = 2;
      const EncoderStep step(
          {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true},
          batch);
      const auto loss = [&] {
        harness.results() = StepResults{};
        model.run_micro_batch(step, false);
        return harness.results().loss_sum;
      };
      model.run_micro_batch(step, true);
      EXPECT_EQ(harness.results().target_count, 2);
      ParameterStore& store = model.parameters();
      for (ParameterId id = 0; id < store.size(); ++id)
        EXPECT_LT(finite_difference_error(store.value(id), store.gradient(id), loss), 1e-6)
            << store.info(id).name;
    }
}

// As PyTorch's CrossEntropyLoss(weight): the weighted mean of the examples' losses, which are found one by
// one.
TEST(WeightedClasses, LossAndGradientsAreWeighted) {
  EncoderConfig config = small_config(true, HeadKind::classification);
  config.weighted = true;
  Model model(config, host_allocator(), true);
  model.parameters().initialize(11);
  Harness harness(reference_backend());
  const PackedBatch batch = random_batch({7, 3, 5}, 29, model.token_embedding().right_rows());
  const EncoderStep step(
      {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true}, batch);
  const auto loss_with = [&](const std::vector<float>& weights) {
    std::ranges::copy(weights, batch.scores.data<float>());
    harness.results() = StepResults{};
    model.run_micro_batch(step, false);
    return harness.results().loss_sum;
  };
  const double first = loss_with({1, 0, 0}), second = loss_with({0, 1, 0}), third = loss_with({0, 0, 1});
  EXPECT_EQ(harness.results().target_count, 1);
  EXPECT_NEAR(loss_with({0.5, 2, 3}), 0.5 * first + 2 * second + 3 * third, 1e-12);
  EXPECT_EQ(harness.results().target_count, 5.5);
  model.run_micro_batch(step, true);
  ParameterStore& store = model.parameters();
  for (ParameterId id = 0; id < store.size(); ++id)
    EXPECT_LT(finite_difference_error(store.value(id), store.gradient(id),
                                      [&] {
                                        return loss_with({0.5, 2, 3});
                                      }),
              1e-6)
        << store.info(id).name;
}

// The mean over all labels of all examples, as PyTorch's BCEWithLogitsLoss.
TEST(MultiLabel, GradientsAgreeWithCentralDifferences) {
  EncoderConfig config = small_config(true, HeadKind::multi_label);
  Model model(config, host_allocator(), true);
  model.parameters().initialize(11);
  Harness harness(reference_backend());
  harness.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
  const PackedBatch batch =
      random_batch({7, 3, 5}, 29, model.token_embedding().right_rows(), 1, 3, 0, config.classes);
  const EncoderStep step(
      {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true}, batch);
  const auto loss = [&] {
    harness.results() = StepResults{};
    model.run_micro_batch(step, false);
    return harness.results().loss_sum;
  };
  model.run_micro_batch(step, true);
  EXPECT_EQ(harness.results().target_count, 9);
  ParameterStore& store = model.parameters();
  for (ParameterId id = 0; id < store.size(); ++id)
    EXPECT_LT(finite_difference_error(store.value(id), store.gradient(id), loss), 1e-6)
        << store.info(id).name;
}

// Two micro-batches add their gradients.
TEST_P(WholeModel, GradientsAccumulate) {
  Model model(config(), host_allocator(), true);
  model.parameters().initialize(11);
  Harness harness(reference_backend());
  const PackedBatch batch = random_batch({4, 6}, 29, model.token_embedding().right_rows());
  const EncoderStep step(
      {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true}, batch);
  model.run_micro_batch(step, true);
  std::vector<double> once = read_tensor(model.parameters().gradients());
  for (double& value : once) value *= 2;
  model.run_micro_batch(step, true);
  EXPECT_LT(relative_error(read_tensor(model.parameters().gradients()), once), 1e-12);
}

// Every parameter's gradient is announced once in a micro-batch, and does not change after that.
TEST_P(WholeModel, GradientsAreCompleteWhenAnnounced) {
  Model model(config(), host_allocator(), true);
  model.parameters().initialize(11);
  Harness harness(reference_backend());
  const PackedBatch batch = random_batch({4, 6}, 29, model.token_embedding().right_rows());
  const ParameterStore& store = model.parameters();
  std::vector<double> announced(store.gradients().elements(), 0);
  std::vector<int> times(store.gradients().elements(), 0);
  model.on_gradients_ready([&](const std::vector<ParameterRange>& ranges) {
    for (const ParameterRange& range : ranges)
      for (std::int64_t i = range.begin; i < range.begin + range.count; ++i) {
        announced[i] = store.gradients().data<double>()[i];
        ++times[i];
      }
  });
  model.run_micro_batch(
      {{harness.context(), store, harness.step_inputs(), harness.step_results(), true}, batch}, true);
  EXPECT_EQ(announced, read_tensor(store.gradients()));
  for (ParameterId id = 0; id < store.size(); ++id)
    for (std::int64_t i = 0; i < store.info(id).shape.elements(); ++i)
      ASSERT_EQ(times[store.offset(id) + i], 1) << store.info(id).name;
}

std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  const auto [tensorized, head, norm, positions] = test.param;
  return fmt::format("{}_{}_{}{}", tensorized ? "tensorized" : "dense",
                     head == HeadKind::mlm               ? "mlm"
                     : head == HeadKind::regression      ? "regression"
                     : head == HeadKind::replaced_tokens ? "replaced_tokens"
                                                         : "classification",
                     norm == NormPlacement::post ? "post" : "pre",
                     positions == Positions::rotary     ? "_rotary"
                     : positions == Positions::relative ? "_relative"
                                                        : "");
}
INSTANTIATE_TEST_SUITE_P(All, WholeModel,
                         testing::Combine(testing::Bool(),
                                          testing::Values(HeadKind::mlm, HeadKind::classification,
                                                          HeadKind::regression, HeadKind::replaced_tokens),
                                          testing::Values(NormPlacement::post, NormPlacement::pre),
                                          testing::Values(Positions::learned)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(OtherPositions, WholeModel,
                         testing::Combine(testing::Bool(), testing::Values(HeadKind::mlm),
                                          testing::Values(NormPlacement::post),
                                          testing::Values(Positions::rotary, Positions::relative)),
                         name_of_case);

// A dry run measures just what a real run needs, and a step allocates nothing.
TEST(Memory, DryRunMeasuresTheArena) {
  Model model(small_config(true), host_allocator(), true);
  model.parameters().initialize(1);
  const PackedBatch batch = random_batch({7, 3, 1, 10}, 29, model.token_embedding().right_rows());
  Buffer inputs(host_allocator(), sizeof(StepInputs), MemoryKind::workspace);
  Buffer results(host_allocator(), sizeof(StepResults), MemoryKind::workspace);
  const auto run_with = [&](Arena& arena) {
    const Context context{reference_backend(), arena, Stream{}};
    model.run_micro_batch({{context, model.parameters(), inputs.tensor({sizeof(StepInputs)}, DType::uint8),
                            results.tensor({sizeof(StepResults)}, DType::uint8), true},
                           batch},
                          true);
  };
  Arena measuring = Arena::measuring(Device{});
  run_with(measuring);
  Arena arena(host_allocator(), measuring.peak());
  host_allocator().forbid(true);
  EXPECT_NO_THROW(run_with(arena));
  host_allocator().forbid(false);
  EXPECT_EQ(arena.peak().total, measuring.peak().total);
  EXPECT_EQ(arena.mark(), 0);
  Arena::Plan less = measuring.peak();
  less.total -= 64;
  Arena small(host_allocator(), less);
  EXPECT_THROW(run_with(small), Error);
}

}  // namespace
}  // namespace comera::test
