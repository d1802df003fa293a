#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "tests/model/configs.h"
#include "tests/model/masked.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

using Names = std::vector<std::string>;

const Names parts = {"attention.query",  "attention.key", "attention.value",
                     "attention.output", "ffn.up",        "ffn.down"};

// Each layer of a block, all pairs, three that leave nothing of Q, K and V, the whole block, and both blocks.
std::vector<Names> removals() {
  std::vector<Names> list;
  const auto of = [](int block, std::initializer_list<std::size_t> which) {
    Names names;
    for (std::size_t i : which) names.push_back(fmt::format("encoder.{}.{}", block, parts[i]));
    return names;
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    list.push_back(of(static_cast<int>(i % 2), {i}));
    for (std::size_t j = i + 1; j < parts.size(); ++j)
      list.push_back(of(static_cast<int>((i + j) % 2), {i, j}));
  }
  list.push_back(of(0, {0, 1, 2}));
  list.push_back(of(1, {0, 1, 2, 3, 4, 5}));
  list.push_back(of(0, {0, 1, 2, 3, 4, 5}));
  list.push_back(list.back());
  for (const std::string& name : of(1, {0, 1, 2, 3, 4, 5})) list.back().push_back(name);
  return list;
}

EncoderConfig without(EncoderConfig config, const Names& names) {
  for (const std::string& name : names) config.tensorized.ranks[name] = {0, 0, 0};
  return config;
}

// A model with memory to run it in.
struct RemovedModel {
  explicit RemovedModel(const EncoderConfig& config)
      : model(config, host_allocator(), true),
        batch(random_batch({7, 3, 1, 10}, 29, model.token_embedding().right_rows())) {
    model.parameters().initialize(11);
    spread_gates(model.parameters());
    harness.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
  }
  double run(bool gradient) {
    harness.results() = StepResults{};
    model.run_micro_batch(
        {{harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true}, batch},
        gradient);
    return harness.results().loss_sum;
  }

  Harness harness{reference_backend(), std::size_t{4} << 20};
  Model model;
  PackedBatch batch;
};

constexpr PlanKind plans[] = {PlanKind::automatic, PlanKind::factors, PlanKind::dense, PlanKind::modewise};

using Case = std::tuple<HeadKind, NormPlacement, PlanKind, Positions>;
std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  const auto [head, norm, plan, positions] = test.param;
  return fmt::format("{}_{}_{}{}", head == HeadKind::mlm ? "mlm" : "classification",
                     norm == NormPlacement::post ? "post" : "pre", name_of(plan),
                     positions == Positions::rotary     ? "_rotary"
                     : positions == Positions::relative ? "_relative"
                                                        : "");
}
const auto all_cases = testing::Combine(testing::Values(HeadKind::mlm, HeadKind::classification),
                                        testing::Values(NormPlacement::post, NormPlacement::pre),
                                        testing::ValuesIn(plans), testing::Values(Positions::learned));
const auto other_positions =
    testing::Combine(testing::Values(HeadKind::mlm), testing::Values(NormPlacement::post),
                     testing::Values(PlanKind::automatic, PlanKind::factors),
                     testing::Values(Positions::rotary, Positions::relative));

class RemovedLayers : public testing::TestWithParam<Case> {
 protected:
  static EncoderConfig config() {
    const auto [head, norm, plan, positions] = GetParam();
    EncoderConfig config = small_config(true, head, norm);
    config.tensorized.plan = plan;
    config.positions = positions;
    // Attention of ranks below the head's size goes between the halves.
    if (plan == PlanKind::automatic) config.tensorized.attention->ranks = {3, 3, 3};
    return config;
  }
};
INSTANTIATE_TEST_SUITE_P(All, RemovedLayers, all_cases, name_of_case);
INSTANTIATE_TEST_SUITE_P(OtherPositions, RemovedLayers, other_positions, name_of_case);

// Loss and every gradient are those of the whole model whose same layers have gates and cores of 0, under
// dropout.
TEST_P(RemovedLayers, AreLayersOfZeros) {
  for (const Names& names : removals()) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(names, ", ")));
    RemovedModel whole(config()), less(without(config(), names));
    const ParameterStore& store = whole.model.parameters();
    const Executioner executioner(store);
    for (const RankedLayer& layer : whole.model.ranked_layers())
      if (std::ranges::count(names, layer.name) > 0) executioner.kill(layer);
    const double loss = whole.run(true);
    EXPECT_NEAR(less.run(true) / loss, 1, 1e-12);
    const Arena::Plan more = whole.harness.context().arena.peak(), peak = less.harness.context().arena.peak();
    EXPECT_LE(peak.saved, more.saved);
    EXPECT_LE(peak.total, more.total);
    int parameters = 0;
    for (ParameterId id = 0; id < store.size(); ++id) {
      const std::string& name = store.info(id).name;
      const auto same = less.model.parameters().find(name);
      const bool removed = std::ranges::any_of(names, [&](const std::string& layer) {
        return name.starts_with(layer + ".") && !name.ends_with("bias");
      });
      ASSERT_EQ(removed, !same) << name;
      if (!same) continue;
      ++parameters;
      EXPECT_LT(
          difference(read_tensor(less.model.parameters().gradient(*same)), read_tensor(store.gradient(id))),
          1e-11)
          << name;
    }
    EXPECT_EQ(less.model.parameters().size(), parameters);
  }
}

// Prediction has no dropout and keeps nothing for a backward pass.
TEST_P(RemovedLayers, PredictAsLayersOfZeros) {
  if (std::get<0>(GetParam()) == HeadKind::mlm) return;
  for (const Names& names : removals()) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(names, ", ")));
    RemovedModel whole(config()), less(without(config(), names));
    const Executioner executioner(whole.model.parameters());
    for (const RankedLayer& layer : whole.model.ranked_layers())
      if (std::ranges::count(names, layer.name) > 0) executioner.kill(layer);
    std::vector<double> logits[2];
    for (RemovedModel* tested : {&whole, &less}) {
      const Tensor y = tested->harness.tensor({tested->batch.capacity.sequences, 3}, DType::float64);
      tested->model.predict({{tested->harness.context(), tested->model.parameters(),
                              tested->harness.step_inputs(), tested->harness.step_results(), false},
                             tested->batch},
                            y);
      logits[tested == &less] = read_tensor(y);
    }
    EXPECT_LT(relative_error(logits[1], logits[0]), 1e-12);
  }
}

// Every gradient, under dropout, against central differences. Each removal in one of the plans.
class RemovedLayersGradients : public testing::TestWithParam<std::tuple<HeadKind, NormPlacement>> {};
INSTANTIATE_TEST_SUITE_P(All, RemovedLayersGradients,
                         testing::Combine(testing::Values(HeadKind::mlm, HeadKind::classification),
                                          testing::Values(NormPlacement::post, NormPlacement::pre)));

TEST_P(RemovedLayersGradients, AgreeWithCentralDifferences) {
  const auto [head, norm] = GetParam();
  std::size_t at = 0;
  for (const Names& names : removals()) {
    EncoderConfig config = small_config(true, head, norm);
    config.tensorized.plan = plans[at++ % std::size(plans)];
    SCOPED_TRACE(fmt::format("{} {}", fmt::join(names, ", "), name_of(config.tensorized.plan)));
    RemovedModel tested(without(config, names));
    const double loss = tested.run(false);
    EXPECT_DOUBLE_EQ(tested.run(true), loss);
    const ParameterStore& store = tested.model.parameters();
    for (ParameterId id = 0; id < store.size(); ++id)
      EXPECT_LT(finite_difference_error(
                    store.value(id), store.gradient(id), [&] { return tested.run(false); }, 4),
                1e-6)
          << store.info(id).name;
  }
}

// A model that computes less needs less memory, and a step still allocates nothing.
TEST(RemovedLayersMemory, IsMeasuredByADryRun) {
  const auto peak_of = [](const EncoderConfig& config) {
    RemovedModel tested(config);
    Arena arena = Arena::measuring(Device{});
    const Context context{reference_backend(), arena, Stream{}};
    tested.model.run_micro_batch({{context, tested.model.parameters(), tested.harness.step_inputs(),
                                   tested.harness.step_results(), true},
                                  tested.batch},
                                 true);
    Arena real(host_allocator(), arena.peak());
    const Context really{reference_backend(), real, Stream{}};
    host_allocator().forbid(true);
    EXPECT_NO_THROW(
        tested.model.run_micro_batch({{really, tested.model.parameters(), tested.harness.step_inputs(),
                                       tested.harness.step_results(), true},
                                      tested.batch},
                                     true));
    host_allocator().forbid(false);
    EXPECT_EQ(real.peak().total, arena.peak().total);
    return arena.peak().saved;
  };
  for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre}) {
    const EncoderConfig config = small_config(true, HeadKind::mlm, norm);
    const std::size_t whole = peak_of(config);
    EXPECT_LT(peak_of(without(config, {"encoder.0.attention.output"})), whole);
    EXPECT_LT(peak_of(without(config, {"encoder.0.ffn.down"})), whole);
  }
}

TEST(RemovedLayersConfig, ListsWhatIsLeft) {
  const Names names = {"encoder.0.attention.key", "encoder.1.attention.output", "encoder.1.ffn.up"};
  const EncoderConfig config = without(small_config(true), names);
  const Model model(config, host_allocator(), false);
  std::vector<std::string> listed;
  const std::vector<RankedLayer> layers = model.ranked_layers();
  for (const RankedLayer& layer : layers) {
    listed.push_back(fmt::format("{} needs {}{}", layer.name,
                                 layer.needs < 0 ? "-" : layers[layer.needs].name,
                                 layer.keeps_one ? ", stays" : ""));
    EXPECT_EQ(layer.gates.size() + 1, layer.cores.size());
    for (std::size_t k = 0; k < layer.cores.size(); ++k)
      EXPECT_EQ(model.parameters().info(layer.cores[k]).name, fmt::format("{}.core.{}", layer.name, k));
    for (std::size_t k = 0; k < layer.gates.size(); ++k)
      EXPECT_EQ(model.parameters().info(layer.gates[k]).name, fmt::format("{}.gate.{}", layer.name, k));
  }
  EXPECT_THAT(
      listed,
      testing::ElementsAre(
          "embedding.tokens needs -, stays", "encoder.0.attention.query needs encoder.0.attention.value",
          "encoder.0.attention.value needs encoder.0.attention.output", "encoder.0.attention.output needs -",
          "encoder.0.ffn.up needs encoder.0.ffn.down", "encoder.0.ffn.down needs -",
          "encoder.1.attention.query needs encoder.1.attention.key",
          "encoder.1.attention.key needs encoder.1.attention.value", "encoder.1.attention.value needs -",
          "encoder.1.ffn.down needs -", "head.transform needs -, stays"));
  EXPECT_TRUE(Model(small_config(false), host_allocator(), false).ranked_layers().empty());
  int removed = 0;
  for (const auto& layer : config.linear_layers()) removed += layer.shape->removed();
  EXPECT_EQ(removed, 3);
}

TEST(RemovedLayersConfig, ImpossibleOnesAreRefused) {
  const auto refusal = [](const EncoderConfig& config) -> std::string {
    try {
      config.validate();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto with = [&](const std::string& layer, const std::vector<std::int64_t>& ranks,
                        HeadKind head = HeadKind::mlm) {
    EncoderConfig config = small_config(true, head);
    config.tensorized.ranks[layer] = ranks;
    return refusal(config);
  };
  EXPECT_EQ(with("encoder.1.ffn.up", {0, 0, 0}), "");
  EXPECT_EQ(with("encoder.1.ffn.up", {3, 0, 6}),
            "tensorized.ranks.encoder.1.ffn.up: rank 0 of bond 2 is impossible beside other ranks; to remove "
            "the layer, set every rank to 0");
  EXPECT_THAT(with("encoder.1.ffn.up", {0, 0}), HasSubstr("4 modes need 3 ranks, but 2 are given"));
  EXPECT_EQ(with("embedding.tokens", {0, 0}),
            "tensorized.ranks.embedding.tokens: this layer cannot be removed; choose ranks of at least 1");
  EXPECT_THAT(with("head.transform", {0, 0, 0}), HasSubstr("this layer cannot be removed"));
  EXPECT_THAT(with("head.pooler", {0, 0, 0}, HeadKind::classification),
              HasSubstr("this layer cannot be removed"));
  EncoderConfig kind = small_config(true);
  kind.tensorized.ffn_up->ranks = {0, 0, 0};
  EXPECT_EQ(
      refusal(kind),
      "tensorized.ffn_up: only single layers can be removed; give them the ranks 0 in tensorized.ranks");
}

}  // namespace
}  // namespace comera::test
