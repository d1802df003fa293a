#include <gmock/gmock.h>

#include <functional>

#include "kernels/cpu/plain/plain_backend.h"
#include "model/model.h"
#include "tests/model/configs.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Every layer has its own ranks, even within a group.
EncoderConfig uneven_config(HeadKind head) {
  EncoderConfig config = small_config(true, head);
  config.tensorized.ranks = {
      {"encoder.0.attention.query", {1, 2, 1}}, {"encoder.0.attention.key", {3, 8, 2}},
      {"encoder.0.attention.value", {2, 1, 3}}, {"encoder.0.attention.output", {2, 5, 2}},
      {"encoder.0.ffn.up", {3, 12, 6}},         {"encoder.1.ffn.down", {1, 1, 1}},
      {"encoder.1.attention.key", {3, 1, 3}},   {EncoderConfig::embedding_layer, {3, 9}},
  };
  config.tensorized.ranks[head == HeadKind::mlm ? "head.transform" : "head.pooler"] = {2, 3, 1};
  return config;
}

std::string refusal(const std::function<void(EncoderConfig&)>& change) {
  EncoderConfig config = small_config(true);
  change(config);
  try {
    config.validate();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class LayerRanksOfAModel : public testing::TestWithParam<HeadKind> {};

TEST_P(LayerRanksOfAModel, AreThoseOfItsParameters) {
  const EncoderConfig config = uneven_config(GetParam());
  const Model model(config, host_allocator(), false);
  const ParameterStore& store = model.parameters();
  const auto shape_of = [&](const std::string& name) { return store.info(*store.find(name)).shape; };
  EXPECT_EQ(shape_of("encoder.0.attention.key.core.1"), (Shape{3, 4, 8}));
  EXPECT_EQ(shape_of("encoder.0.attention.value.core.1"), (Shape{2, 4, 1}));
  EXPECT_EQ(shape_of("encoder.0.attention.value.gate.2"), (Shape{3}));
  EXPECT_EQ(shape_of("encoder.1.attention.query.core.1"), (Shape{3, 4, 6})) << "its kind's";
  EXPECT_EQ(shape_of("embedding.tokens.core.1"), (Shape{3, 2, 2, 9}));
}

// linear_layers() names the layers that the model has, with their shapes.
TEST_P(LayerRanksOfAModel, AreListedByLayer) {
  const EncoderConfig config = uneven_config(GetParam());
  const Model model(config, host_allocator(), false);
  std::vector<std::string> expected, listed;
  for (const Linear* linear : model.linears())
    for (int i = 0; i < linear->outputs(); ++i)
      if (linear->output_name(i) != "head.classifier")
        expected.push_back(linear->output_name(i) + " " + linear->shape_text(i));
  for (const auto& layer : config.linear_layers()) {
    listed.push_back(layer.name + " " + layer.shape->text());
    EXPECT_EQ(layer.inputs, layer.shape->input_size());
    EXPECT_EQ(layer.outputs, layer.shape->output_size());
  }
  EXPECT_EQ(listed, expected);
}

// Lookup, attention, feed-forward, head and tied decoder with uneven ranks, against central differences.
TEST_P(LayerRanksOfAModel, GradientsAgreeWithCentralDifferences) {
  for (PlanKind plan : {PlanKind::automatic, PlanKind::halves}) {
    EncoderConfig config = uneven_config(GetParam());
    config.tensorized.plan = plan;
    Model model(config, host_allocator(), true);
    model.parameters().initialize(4);
    Harness harness(plain_backend());
    harness.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
    const PackedBatch batch = random_batch({7, 3, 1, 10}, 29, model.token_embedding().right_rows());
    const EncoderStep step(
        {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true}, batch);
    const auto loss = [&] {
      harness.results() = StepResults{};
      model.run_micro_batch(step, false);
      return harness.results().loss_sum;
    };
    model.run_micro_batch(step, true);
    ParameterStore& store = model.parameters();
    for (ParameterId id = 0; id < store.size(); ++id)
      EXPECT_LT(finite_difference_error(store.value(id), store.gradient(id), loss), 1e-6)
          << store.info(id).name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LayerRanksOfAModel, testing::Values(HeadKind::mlm, HeadKind::classification),
                         [](const auto& test) {
                           return test.param == HeadKind::mlm ? "mlm" : "classification";
                         });

TEST(LayerRanks, ImpossibleOnesAreRefused) {
  const auto with = [](const std::string& layer, const std::vector<std::int64_t>& ranks) {
    return refusal([&](EncoderConfig& config) { config.tensorized.ranks[layer] = ranks; });
  };
  EXPECT_EQ(with("encoder.1.ffn.up", {3, 12, 6}), "");
  EXPECT_THAT(with("encoder.1.ffn.up", {3, 13, 6}),
              StartsWith("tensorized.ranks.encoder.1.ffn.up: rank 13 of bond 2 is impossible"));
  EXPECT_THAT(with("encoder.1.ffn.up", {3, 0, 6}), HasSubstr("rank 0 of bond 2 is impossible"));
  EXPECT_THAT(with("encoder.1.ffn.up", {3, 6}), HasSubstr("4 modes need 3 ranks, but 2 are given"));
  EXPECT_THAT(with("embedding.tokens", {9, 2}), HasSubstr("rank 9 of bond 1 is impossible"));
  EXPECT_THAT(with("encoder.2.ffn.up", {3, 3, 3}),
              StartsWith("tensorized.ranks.encoder.2.ffn.up: the model has no layer of that name"));
  EXPECT_THAT(with("head.pooler", {3, 3, 3}), HasSubstr("no layer of that name"));
  EXPECT_THAT(refusal([](EncoderConfig& config) {
                config.tensorized.ffn_down.reset();
                config.tensorized.ranks["encoder.0.ffn.down"] = {1, 1, 1};
              }),
              HasSubstr("the layer is dense and has no ranks; give its modes in tensorized.ffn_down"));
}

TEST(LayerRanks, TheDenseBaselineHasNone) {
  const EncoderConfig baseline = uneven_config(HeadKind::mlm).dense_baseline();
  EXPECT_TRUE(baseline.tensorized.ranks.empty());
  EXPECT_NO_THROW(baseline.validate());
}

}  // namespace
}  // namespace comera::test
