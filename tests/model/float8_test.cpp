// Models whose linears multiply in 8 bits.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/float8.h"
#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "tensorized/decomposition/compaction.h"
#include "tests/model/configs.h"
#include "tests/model/masked.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

// Widths are multiples of 16, ranks are not, nor is the number of tokens.
EncoderConfig float8_config(HeadKind head = HeadKind::mlm, NormPlacement norm = NormPlacement::post) {
  EncoderConfig config = small_config(true, head, norm);
  config.hidden = 64;
  config.heads = 2;
  config.ffn = 48;
  config.tensorized.attention = TTShape{{8, 8}, {8, 8}, {3, 7, 3}};
  config.tensorized.ffn_up = TTShape{{8, 8}, {6, 8}, {3, 9, 5}};
  config.tensorized.ffn_down = TTShape{{6, 8}, {8, 8}, {4, 17, 3}};
  config.tensorized.head = TTShape{{8, 8}, {8, 8}, {3, 5, 3}};
  config.tensorized.embedding = TTMShape{{4, 2, 4}, {4, 4, 4}, {5, 6}};
  return config;
}

EncoderConfig in_float8(EncoderConfig config,
                        Float8Config::Scaling scaling = Float8Config::Scaling::current) {
  config.float8 = Float8Config{.scaling = scaling, .amax_history_len = 4};
  return config;
}

// Widths of the queries and attended values of all heads, each of a rank of 7 padded to 16: not those of the
// model.
constexpr std::int64_t between_factors = 32;
int layers_between_factors;

Tensor activated(const Context& context, ArenaScope& scope, const Tensor& u, Activation activation) {
  if (activation == Activation::none) return u;
  const Tensor y = scope.tensor(u.shape(), u.dtype());
  run(context, BiasActivationForward{.u = u, .bias = {}, .activation = activation, .y = y});
  return y;
}

// The same operations with operands that are not rounded: what is left of 8 bits is how they are laid out.
Backend without_rounding() {
  Backend backend = reference_backend();
  backend.compose<Float8LinearForward>(
      DType::float64, [](const Float8LinearForward& op, const Context& context) {
        const std::int64_t narrower = std::min(op.linear.x.dim(1), op.linear.output[0].b.dim(1));
        layers_between_factors += narrower == between_factors ? 1 : 0;
        ArenaScope scope(context.arena);
        TTLinearForward linear = op.linear;
        linear.x = activated(context, scope, op.linear.x, op.input_activation);
        run(context, linear);
      });
  backend.compose<Float8LinearBackward>(
      DType::float64, [](const Float8LinearBackward& op, const Context& context) {
        ArenaScope scope(context.arena);
        TTLinearBackward linear = op.linear;
        linear.x = activated(context, scope, op.linear.x, op.input_activation);
        run(context, linear);
      });
  return backend;
}

// A model with memory to run it in.
struct Float8Model {
  explicit Float8Model(const EncoderConfig& config, const Backend& backend = reference_backend())
      : harness(backend, std::size_t{8} << 20),
        model(config, host_allocator(), true),
        batch(random_batch({7, 3, 1, 10}, 29, model.token_embedding().right_rows())) {
    model.parameters().initialize(11);
    if (config.compute == DType::float64) spread_gates(model.parameters());
    harness.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
  }
  double run(bool gradient) {
    harness.results() = StepResults{};
    model.run_micro_batch(
        {{harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true}, batch},
        gradient);
    return harness.results().loss_sum;
  }
  void next() {
    harness.results() = StepResults{};
    model.float8()->next(harness.context(), harness.step_results());
  }
  // Of all parameters in their order, without gaps.
  std::vector<double> gradient() const {
    std::vector<double> all;
    const ParameterStore& store = model.parameters();
    for (ParameterId id = 0; id < store.size(); ++id) {
      const std::vector<double> one = read_tensor(store.gradient(id));
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  Harness harness;
  Model model;
  PackedBatch batch;
};

double gradient_error(const Float8Model& rounded, const Float8Model& exact) {
  return difference(rounded.gradient(), exact.gradient());
}

using Case = std::tuple<HeadKind, NormPlacement, PlanKind>;
class Float8Models : public testing::TestWithParam<Case> {
 protected:
  static EncoderConfig config() {
    const auto [head, norm, plan] = GetParam();
    EncoderConfig config = float8_config(head, norm);
    config.tensorized.plan = plan;
    return config;
  }
};
std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  constexpr const char* heads[] = {"mlm", "classification", "regression"};
  const auto [head, norm, plan] = test.param;
  return fmt::format("{}_{}_{}", heads[static_cast<int>(head)], norm == NormPlacement::post ? "post" : "pre",
                     name_of(plan));
}
INSTANTIATE_TEST_SUITE_P(All, Float8Models,
                         testing::Combine(testing::Values(HeadKind::mlm, HeadKind::classification,
                                                          HeadKind::regression),
                                          testing::Values(NormPlacement::post, NormPlacement::pre),
                                          testing::Values(PlanKind::automatic, PlanKind::factors)),
                         name_of_case);

const std::vector<std::vector<const char*>> removals = {
    {},
    {"encoder.0.attention.query"},
    {"encoder.0.attention.key", "encoder.1.attention.value"},
    {"encoder.0.attention.query", "encoder.0.attention.key", "encoder.0.attention.value"},
    {"encoder.0.attention.output", "encoder.1.ffn.down"},
    {"encoder.0.ffn.up"}};

// Padding is invisible outside of the layer: without rounding, loss and gradients are those of the exact
// model.
TEST_P(Float8Models, AreExactButForRounding) {
  const Backend backend = without_rounding();
  for (const auto& removed : removals) {
    SCOPED_TRACE(fmt::format("without {}", fmt::join(removed, ", ")));
    EncoderConfig wanted = config();
    for (const char* layer : removed) wanted.tensorized.ranks[layer] = {0, 0, 0};
    Float8Model exact(wanted), padded(in_float8(wanted), backend);
    const double loss = exact.run(true);
    EXPECT_NEAR(padded.run(true) / loss, 1, 1e-12);
    EXPECT_LT(difference(padded.gradient(), exact.gradient()), 1e-11);
    layers_between_factors = 0;
    EXPECT_NEAR(padded.run(false) / exact.run(false), 1, 1e-12);
    if (removed.empty()) {
      EXPECT_EQ(layers_between_factors, config().tensorized.plan == PlanKind::automatic ? 4 : 0);
    }
  }
}

// With it, they are close, but not the same.
TEST_P(Float8Models, AreCloseToTheExactModel) {
  for (const auto& removed : removals) {
    SCOPED_TRACE(fmt::format("without {}", fmt::join(removed, ", ")));
    EncoderConfig wanted = config();
    for (const char* layer : removed) wanted.tensorized.ranks[layer] = {0, 0, 0};
    Float8Model exact(wanted), rounded(in_float8(wanted));
    const double loss = exact.run(true);
    EXPECT_NEAR(rounded.run(true) / loss, 1, 0.05);
    EXPECT_LT(gradient_error(rounded, exact), 0.5);
    EXPECT_GT(gradient_error(rounded, exact), 0.005);
  }
}

// As users get it: attention between the halves of activations in bfloat16, by the quick kernels.
TEST(Float8QuickModels, AreCloseToTheExactModel) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification}) {
    EncoderConfig narrow = float8_config(head);
    narrow.compute = DType::bfloat16;
    EncoderConfig exact_config = float8_config(head);
    Float8Model exact(exact_config), rounded(in_float8(narrow), cpu_backend());
    for (Float8Model* tested : {&exact, &rounded}) spread_gates(tested->model.parameters());
    const double loss = exact.run(true);
    EXPECT_NEAR(rounded.run(true) / loss, 1, 0.05);
    EXPECT_LT(gradient_error(rounded, exact), 0.5);
    EXPECT_GT(gradient_error(rounded, exact), 0.005);
    // Scales of its own say that it was taken.
    const auto snapshot = rounded.model.float8()->snapshot();
    const Float8State::Layer fresh{.scale = std::vector<float>(Float8Slots::count, 1.F), .history = {}};
    for (const char* layer :
         {"encoder.0.attention.between_halves", "encoder.1.attention.output.between_halves"})
      EXPECT_NE(snapshot.at(layer).scale, fresh.scale) << layer;
    EXPECT_EQ(snapshot.at("encoder.0.attention").scale, fresh.scale);
  }
}

TEST(Float8DenseModels, AreCloseToTheExactModel) {
  const EncoderConfig dense = float8_config().dense_baseline();
  Float8Model exact(dense), rounded(in_float8(dense));
  const double loss = exact.run(true);
  EXPECT_NEAR(rounded.run(true) / loss, 1, 0.05);
  EXPECT_LT(gradient_error(rounded, exact), 0.3);
  EXPECT_GT(gradient_error(rounded, exact), 0.005);
}

// A width that is no multiple of 16 is computed in the type of activations.
TEST(Float8DenseModels, LeaveOutWhatDoesNotFit) {
  Float8Model exact(small_config(false)), same(in_float8(small_config(false)));
  const double loss = exact.run(true);
  EXPECT_EQ(same.run(true), loss);
  EXPECT_EQ(same.gradient(), exact.gradient());
}

// The first step has scales of 1; those of the second come from it. An evaluation changes neither.
TEST(Float8Scales, DelayedOnesComeFromTheStepBefore) {
  Float8Model exact(float8_config()), delayed(in_float8(float8_config(), Float8Config::Scaling::delayed)),
      current(in_float8(float8_config()));
  for (Float8Model* tested : {&exact, &delayed, &current}) tested->run(true);
  const Float8State::Snapshot fresh = delayed.model.float8()->snapshot();
  for (const auto& [layer, state] : fresh)
    for (const float scale : state.scale) EXPECT_EQ(scale, 1) << layer;
  delayed.next();
  const Float8State::Snapshot learnt = delayed.model.float8()->snapshot();
  EXPECT_NE(learnt, fresh);
  delayed.run(false);
  EXPECT_EQ(delayed.model.float8()->snapshot(), learnt);
  run(delayed.harness.context(), Fill{.x = delayed.model.parameters().gradients(), .value = 0});
  delayed.run(true);
  // The same numbers again: what a step before has seen is what this one sees.
  EXPECT_LT(gradient_error(delayed, exact), 1.5 * gradient_error(current, exact));
}

// What a run saves and goes on from, and what a compacted model takes over.
TEST(Float8Scales, AreRestored) {
  const EncoderConfig config = in_float8(float8_config(), Float8Config::Scaling::delayed);
  Float8Model first(config), second(config);
  for (int step = 0; step < 6; ++step) {  // more than are remembered
    first.run(true);
    first.next();
  }
  const Float8State::Snapshot saved = first.model.float8()->snapshot();
  second.model.float8()->restore(saved);
  EXPECT_EQ(second.model.float8()->snapshot(), saved);
  for (int step = 0; step < 3; ++step)
    for (Float8Model* tested : {&first, &second}) {
      run(tested->harness.context(), Fill{.x = tested->model.parameters().gradients(), .value = 0});
      tested->run(true);
      tested->next();
    }
  EXPECT_EQ(second.gradient(), first.gradient());
  EXPECT_EQ(second.model.float8()->snapshot(), first.model.float8()->snapshot());
}

// Dead entries are zeros, which change neither a scale nor a sum.
TEST(Float8Scales, GoThroughCompactionAndRemovedLayers) {
  for (const auto& removed : removals) {
    SCOPED_TRACE(fmt::format("without {}", fmt::join(removed, ", ")));
    const EncoderConfig config = in_float8(float8_config(), Float8Config::Scaling::delayed);
    Float8Model whole(config);
    const ParameterStore& store = whole.model.parameters();
    const Executioner executioner(store);
    const std::vector<RankedLayer> layers = whole.model.ranked_layers();
    for (const RankedLayer& layer : layers) {
      const bool all = std::ranges::find(removed, layer.name) != removed.end();
      if (all)
        executioner.kill(layer);
      else
        executioner.kill(layer, 1, 2);
    }
    for (int step = 0; step < 2; ++step) {
      whole.run(true);
      whole.next();
    }
    const std::vector<LiveEntries> live = live_entries(store, layers);
    EncoderConfig smaller = config;
    for (const auto& [layer, ranks] : ranks_of(live)) smaller.tensorized.ranks[layer] = ranks;
    Float8Model less(smaller);
    CompactedParameters(store, {}, layers, live).write(less.model.parameters(), {});
    less.model.float8()->restore(whole.model.float8()->snapshot());
    for (int step = 0; step < 5; ++step) {
      const double loss = whole.run(true);
      EXPECT_NEAR(less.run(true) / loss, 1, 1e-12);
      for (Float8Model* tested : {&whole, &less}) tested->next();
    }
    if (!removed.empty()) continue;  // of what is zero nothing is learnt, and less has no such operands
    const Float8State::Snapshot expected = whole.model.float8()->snapshot();
    for (const auto& [layer, state] : less.model.float8()->snapshot())
      EXPECT_EQ(state.scale, expected.at(layer).scale) << layer;
  }
}

TEST(Float8Scales, AShorterHistoryKeepsTheNewestSteps) {
  EncoderConfig config = in_float8(float8_config(), Float8Config::Scaling::delayed);
  Float8Model first(config);
  for (int step = 0; step < 6; ++step) {
    first.run(true);
    first.next();
  }
  for (const std::int64_t length : {2, 7}) {
    config.float8->amax_history_len = length;
    Float8Model other(config);
    const Float8State::Layer longer = first.model.float8()->snapshot().at("encoder.1.ffn.down");
    other.model.float8()->restore(first.model.float8()->snapshot());
    const Float8State::Layer kept = other.model.float8()->snapshot().at("encoder.1.ffn.down");
    EXPECT_EQ(kept.scale, longer.scale);
    for (std::int64_t slot = 0; slot < Float8Slots::count; ++slot)
      for (std::int64_t step = 1; step <= length; ++step)
        EXPECT_EQ(kept.history[(slot + 1) * length - step],
                  step <= 4 ? longer.history[(slot + 1) * 4 - step] : 0);
  }
}

// Scales that hybrid's gradients had would be 2^7 times too large for E4M3.
TEST(Float8Scales, AreRemadeForAnotherFormatOrMargin) {
  EncoderConfig config = in_float8(float8_config(), Float8Config::Scaling::delayed);
  Float8Model hybrid(config);
  hybrid.run(true);
  hybrid.next();
  const Float8State::Snapshot saved = hybrid.model.float8()->snapshot();
  Float8State::Snapshot without_history = saved;
  for (auto& [name, layer] : without_history) layer.history.clear();
  const std::string name = "encoder.1.ffn.down";

  config.float8->format = Float8Config::Format::e4m3;
  Float8Model narrow(config);
  narrow.model.float8()->restore(saved);
  const Float8State::Layer remade = narrow.model.float8()->snapshot().at(name);
  narrow.model.float8()->restore(without_history);
  const Float8State::Layer anew = narrow.model.float8()->snapshot().at(name);
  config.float8->margin = 3;
  Float8Model careful(config);
  careful.model.float8()->restore(saved);
  const Float8State::Layer smaller = careful.model.float8()->snapshot().at(name);
  int seen = 0;
  for (int slot = 0; slot < Float8Slots::count; ++slot) {
    const float before = saved.at(name).scale[slot];
    const float amax = saved.at(name).history[(slot + 1) * config.float8->amax_history_len - 1];
    EXPECT_EQ(anew.scale[slot], Float8Slots::is_gradient(slot) ? 1 : before);
    if (amax == 0) continue;
    ++seen;
    EXPECT_LE(amax * remade.scale[slot], float8_e4m3::largest);
    EXPECT_GT(amax * remade.scale[slot], float8_e4m3::largest / 2);
    EXPECT_EQ(remade.scale[slot], Float8Slots::is_gradient(slot) ? before / 128 : before);
    EXPECT_EQ(smaller.scale[slot], remade.scale[slot] / 8);
  }
  EXPECT_GT(seen, 3);
}

TEST(Float8Scales, ImpossibleOnesAreRefused) {
  const EncoderConfig config = in_float8(float8_config(), Float8Config::Scaling::delayed);
  Float8Model tested(config);
  Float8State::Snapshot snapshot = tested.model.float8()->snapshot();
  const auto refused = [&](const char* why) {
    EXPECT_THAT([&] { tested.model.float8()->restore(snapshot); },
                testing::ThrowsMessage<Error>(
                    testing::AllOf(testing::HasSubstr("encoder.0.attention"), testing::HasSubstr(why))));
  };
  Float8State::Layer& layer = snapshot.at("encoder.0.attention");
  layer.scale[3] = 0;
  refused("no scale");
  layer.scale[3] = std::nanf("");
  refused("no scale");
  layer.scale[3] = 3;
  refused("a power of two");
  layer.scale.pop_back();
  refused("scales");
}

}  // namespace
}  // namespace comera::test
