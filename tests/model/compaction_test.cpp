#include "tensorized/decomposition/compaction.h"

#include <gmock/gmock.h>

#include <cstring>
#include <functional>

#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "tests/model/configs.h"
#include "tests/model/masked.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A model in training.
struct Training {
  explicit Training(const EncoderConfig& config, OptimizerKind kind = OptimizerKind::adamw)
      : model(config, host_allocator(), true),
        optimizer(make_optimizer(
            model.parameters(),
            {.kind = kind, .galore = GaloreOptions{.rank = 3}, .weight_decay = 0.05, .decay_cores = true},
            host_allocator())),
        batch(random_batch({7, 3, 1, 10}, 29, model.token_embedding().right_rows())) {
    model.parameters().initialize(11);
    spread_gates(model.parameters());
  }
  double loss(int number, bool gradient) {
    harness.inputs() = StepInputs{};
    harness.inputs().dropout = {.seed = 5, .step = static_cast<std::uint32_t>(number), .micro_batch = 1};
    harness.results() = StepResults{};
    model.run_micro_batch(
        {{harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true}, batch},
        gradient);
    return harness.results().loss_sum;
  }
  // With the norm of the gradient clipped, which must not see what is dead.
  double step(int number) {
    const double sum = loss(number, true);
    harness.inputs().targets = harness.results().target_count;
    harness.inputs().max_norm = 0.1;
    for (double& rate : harness.inputs().learning_rate) rate = 2e-3;
    optimizer->prepare(harness.inputs(), number);
    if (optimizer->refreshes(number)) optimizer->refresh(0, 1);
    optimizer->apply(harness.context(), harness.step_inputs(), harness.step_results());
    EXPECT_EQ(harness.results().nonfinite, 0);
    EXPECT_GT(harness.results().gradient_norm, harness.inputs().max_norm) << "or it is not clipped";
    return sum;
  }
  std::vector<double> logits() {
    const Tensor y = harness.tensor({batch.capacity.sequences, 3}, DType::float64);
    model.predict(
        {{harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), false},
         batch},
        y);
    return read_tensor(y);
  }
  std::vector<ParameterState> states() const { return optimizer->states(); }
  Executioner executioner() const {
    const Optimizer::Moments moments = optimizer->moments();
    return {model.parameters(), {moments.first, moments.second}};
  }
  std::vector<LiveEntries> live() const { return live_entries(model.parameters(), model.ranked_layers()); }
  CompactedParameters compacted() const {
    return {model.parameters(), states(), model.ranked_layers(), live()};
  }
  EncoderConfig compacted_config() const {
    EncoderConfig config = model.config();
    for (const auto& [layer, ranks] : ranks_of(live())) config.tensorized.ranks[layer] = ranks;
    return config;
  }

  Harness harness{reference_backend(), std::size_t{4} << 20};
  Model model;
  std::unique_ptr<Optimizer> optimizer;
  PackedBatch batch;
};

// What dies in a model.
struct Pattern {
  std::string name;
  std::function<void(const Executioner&, const std::vector<RankedLayer>&)> kill;
};

std::vector<Pattern> patterns() {
  const auto layers_with = [](const std::string& part) {
    return [part](const Executioner& executioner, const std::vector<RankedLayer>& layers) {
      for (const RankedLayer& layer : layers)
        if (layer.name.find(part) != std::string::npos) executioner.kill(layer);
    };
  };
  // All entries of all bonds but some.
  const auto all_but = [](const auto& lives) {
    return [lives](const Executioner& executioner, const std::vector<RankedLayer>& layers) {
      for (const RankedLayer& layer : layers)
        for (std::size_t bond = 0; bond < layer.gates.size(); ++bond) {
          const std::int64_t rank = executioner.rank(layer, bond);
          for (std::int64_t i = 0; i < rank; ++i)
            if (!lives(layer, bond, i, rank)) executioner.kill(layer, bond, i);
        }
    };
  };
  using Layer = const RankedLayer&;
  return {
      {"nothing", [](const auto&, const auto&) {}},
      {"one_entry_of_each_layer",
       [](const Executioner& executioner, const std::vector<RankedLayer>& layers) {
         for (std::size_t l = 0; l < layers.size(); ++l) {
           const std::size_t bond = l % layers[l].gates.size();
           executioner.kill(layers[l], bond,
                            static_cast<std::int64_t>(l) % executioner.rank(layers[l], bond));
         }
       }},
      {"to_rank_1", all_but([](Layer layer, std::size_t bond, std::int64_t i, std::int64_t rank) {
         return i == static_cast<std::int64_t>(layer.name.size() + bond) % rank;
       })},
      {"every_other", all_but([](Layer layer, std::size_t bond, std::int64_t i, std::int64_t rank) {
         return (i + layer.name.size() + bond) % 2 == 0 || i + 1 == rank;
       })},
      {"embedding_to_1", all_but([](Layer layer, std::size_t, std::int64_t i, std::int64_t rank) {
         return layer.name != "embedding.tokens" || i + 1 == rank;
       })},
      {"query", layers_with("0.attention.query")},
      {"key", layers_with("1.attention.key")},
      {"value", layers_with("0.attention.value")},
      {"output", layers_with("1.attention.output")},
      {"up", layers_with("0.ffn.up")},
      {"down", layers_with("1.ffn.down")},
      {"block", layers_with("encoder.0.")},
      {"all_blocks", layers_with("encoder.")},
  };
}

using Case = std::tuple<HeadKind, PlanKind>;
class Compaction : public testing::TestWithParam<Case> {
 protected:
  static EncoderConfig config(NormPlacement norm, OptimizerKind kind) {
    // With one of the optimizers also diagonals, which stay where a train goes, and a projection behind the
    // embedding, whose frequent ids have rows of their own.
    const HeadKind head = std::get<0>(GetParam());
    EncoderConfig config =
        kind == OptimizerKind::muon ? diagonal_config(head, norm) : small_config(true, head, norm);
    if (kind == OptimizerKind::muon) {
      config.tensorized.embedding = projected_config(head, norm).tensorized.embedding;
      config.tensorized.embedding->frequent_rows = 9;
    }
    config.tensorized.plan = std::get<1>(GetParam());
    if (kind == OptimizerKind::galore) config.tensorized.head.reset();  // a dense matrix beside the trains
    return config;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Compaction,
                         testing::Combine(testing::Values(HeadKind::mlm, HeadKind::classification),
                                          testing::Values(PlanKind::automatic, PlanKind::factors,
                                                          PlanKind::dense, PlanKind::modewise)),
                         [](const auto& test) {
                           return fmt::format(
                               "{}_{}", std::get<0>(test.param) == HeadKind::mlm ? "mlm" : "classification",
                               name_of(std::get<1>(test.param)));
                         });

// Every parameter, and every state of it.
void expect_same(const Training& got, const Training& expected) {
  const ParameterStore& store = got.model.parameters();
  for (ParameterId id = 0; id < store.size(); ++id)
    EXPECT_LT(difference(read_tensor(store.value(id)), read_tensor(expected.model.parameters().value(id))),
              1e-11)
        << store.info(id).name;
  const std::vector<ParameterState> gots = got.states(), expecteds = expected.states();
  ASSERT_EQ(gots.size(), expecteds.size());
  for (std::size_t i = 0; i < gots.size(); ++i) {
    EXPECT_EQ(gots[i].name, expecteds[i].name);
    EXPECT_LT(difference(read_tensor(gots[i].values), read_tensor(expecteds[i].values)), 1e-11)
        << store.info(gots[i].parameter).name << "'s " << gots[i].name;
  }
}

// Before and after compaction the model computes the same, and the next steps do the same: to rounding.
TEST_P(Compaction, ChangesNothingOfTraining) {
  using Variant = std::pair<NormPlacement, OptimizerKind>;
  for (const auto& [norm, kind] :
       {Variant{NormPlacement::post, OptimizerKind::adamw}, Variant{NormPlacement::pre, OptimizerKind::adamw},
        Variant{NormPlacement::post, OptimizerKind::muon}, Variant{NormPlacement::post, OptimizerKind::lamb},
        Variant{NormPlacement::post, OptimizerKind::galore}}) {
    Training trained(config(norm, kind), kind);
    trained.step(0);
    trained.step(1);
    for (const Pattern& pattern : patterns()) {
      SCOPED_TRACE(
          fmt::format("{} {} {}", pattern.name, norm == NormPlacement::post ? "post" : "pre", name_of(kind)));
      Training masked(config(norm, kind), kind);
      trained.compacted().write(masked.model.parameters(), masked.states());
      pattern.kill(masked.executioner(), masked.model.ranked_layers());
      Training compacted(masked.compacted_config(), kind);
      masked.compacted().write(compacted.model.parameters(), compacted.states());
      const std::vector<LiveEntries> live = masked.live();

      if (std::get<0>(GetParam()) == HeadKind::classification) {
        EXPECT_LT(relative_error(compacted.logits(), masked.logits()), 1e-11);
      }
      for (int number = 2; number < 5; ++number)
        EXPECT_NEAR(compacted.step(number) / masked.step(number), 1, 1e-11);

      // The masked model has not revived what was dead: what is left of it is the compacted model.
      EXPECT_EQ(ranks_of(masked.live()), ranks_of(live));
      Training left(masked.compacted_config(), kind);
      masked.compacted().write(left.model.parameters(), left.states());
      expect_same(compacted, left);
    }
  }
}

TEST(LiveEntriesOfAModel, AreThoseOfItsGates) {
  Training training(small_config(true));
  const std::vector<RankedLayer> layers = training.model.ranked_layers();
  const Executioner executioner = training.executioner();
  executioner.kill(layers[0], 1, 2);
  for (std::int64_t i = 0; i < executioner.rank(layers[1], 1); ++i) executioner.kill(layers[1], 1, i);
  const std::vector<LiveEntries> live = training.live();
  ASSERT_EQ(live.size(), layers.size());
  EXPECT_EQ(live[0].layer, "embedding.tokens");
  EXPECT_THAT(live[0].bonds[0], ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(live[0].bonds[1], ElementsAre(0, 1, 3, 4, 5));
  EXPECT_FALSE(live[0].removed());
  EXPECT_TRUE(live[1].removed());
  for (const auto& bond : live[1].bonds) EXPECT_TRUE(bond.empty()) << "one dead bond removes the layer";
  const LayerRanks ranks = ranks_of(live);
  EXPECT_THAT(ranks.at("embedding.tokens"), ElementsAre(5, 5));
  EXPECT_THAT(ranks.at("encoder.0.attention.query"), ElementsAre(0, 0, 0));
  EXPECT_THAT(ranks.at("encoder.1.ffn.up"), ElementsAre(3, 7, 5));
  EXPECT_EQ(ranks.size(), layers.size());
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CompactedParametersOfAModel, GoIntoThatModelOnly) {
  Training training(small_config(true));
  const std::vector<RankedLayer> layers = training.model.ranked_layers();
  training.executioner().kill(layers[2], 1, 0);
  training.executioner().kill(layers[3]);
  const CompactedParameters compacted = training.compacted();
  Training right(training.compacted_config()), wrong(small_config(true));
  EXPECT_EQ(message_of([&] { compacted.write(right.model.parameters(), right.states()); }), "");
  EXPECT_THAT(
      message_of([&] { compacted.write(wrong.model.parameters(), wrong.states()); }),
      HasSubstr("'encoder.0.attention.key.core.1' is (3, 4, 6) in the compacted model, but (3, 4, 5)"));
  EXPECT_THAT(message_of([&] { compacted.write(right.model.parameters(), {}); }),
              HasSubstr("the compacted model has no 'embedding.tokens.core.0's m'"));
  EXPECT_THAT(
      message_of([&] { compacted.write(right.model.parameters(), wrong.states()); }),
      HasSubstr("state 'm' of encoder.0.attention.key.core.1 is (3, 4, 6), but its parameter is (3, 4, 5)"));
  EncoderConfig config = training.compacted_config();
  config.compute = DType::float32;
  Training other_type(config);
  EXPECT_THAT(message_of([&] { compacted.write(other_type.model.parameters(), other_type.states()); }),
              HasSubstr("cannot be written as"));
  config = training.compacted_config();
  config.tensorized.ranks.erase("encoder.0.attention.value");
  Training more(config);
  EXPECT_THAT(message_of([&] { compacted.write(more.model.parameters(), more.states()); }),
              HasSubstr("parameters and states, but"));
  config = training.compacted_config();
  config.tensorized.ranks["encoder.1.ffn.up"] = {0, 0, 0};
  Training fewer(config);
  EXPECT_THAT(message_of([&] { compacted.write(fewer.model.parameters(), fewer.states()); }),
              HasSubstr("the compacted model has no 'encoder.1.ffn.up.core.0'"));
  // What is kept of a parameter in another form than its own cannot be cut with it.
  std::vector<ParameterState> states = training.states();
  states.front() = {layers[2].cores[1], "basis", training.harness.tensor({2, 2}, DType::float64), false};
  EXPECT_THAT(
      message_of([&] { CompactedParameters(training.model.parameters(), states, layers, training.live()); }),
      HasSubstr("'s basis has not one value per entry, so it cannot be pruned like its parameter"));
  states.front().parameter = layers[2].cores[0];  // none of its bonds has lost an entry
  EXPECT_EQ(
      message_of([&] { CompactedParameters(training.model.parameters(), states, layers, training.live()); }),
      "");
  states.front().entrywise = true;
  EXPECT_THAT(
      message_of([&] { CompactedParameters(training.model.parameters(), states, layers, training.live()); }),
      HasSubstr("state 'basis' of encoder.0.attention.key.core.0 is (2, 2), but its parameter is"));
  training.executioner().kill(layers[0]);
  EXPECT_THAT(
      message_of([&] { training.live(); }),
      HasSubstr("embedding.tokens: all gate entries of bond 1 are 0, but this layer cannot be removed"));
}

// Nothing is rounded on the way.
TEST(CompactedParametersOfAModel, AreTheSameBits) {
  EncoderConfig config = small_config(true);
  config.compute = DType::float32;
  Model from(config, host_allocator(), false), to(config, host_allocator(), false);
  from.parameters().initialize(3);
  const Tensor values = from.parameters().values();
  const auto layers = from.ranked_layers();
  const auto live = live_entries(from.parameters(), layers);
  Buffer state(host_allocator(), values.bytes(), MemoryKind::optimizer);
  const Tensor kept = state.tensor(values.shape(), DType::float32);
  const auto states_in = [](const ParameterStore& store, const Tensor& flat) {
    std::vector<ParameterState> states;
    for (ParameterId id = 0; id < store.size(); ++id)
      states.push_back({id, "m", flat.slice(store.offset(id), store.info(id).shape)});
    return states;
  };
  std::memset(kept.raw(), 0, kept.bytes());  // the gaps between tensors are nobody's
  CompactedParameters(from.parameters(), states_in(from.parameters(), values), layers, live)
      .write(to.parameters(), states_in(to.parameters(), kept));
  EXPECT_EQ(std::memcmp(to.parameters().values().raw(), values.raw(), values.bytes()), 0);
  EXPECT_EQ(std::memcmp(kept.raw(), values.raw(), values.bytes()), 0);
}

}  // namespace
}  // namespace comera::test
