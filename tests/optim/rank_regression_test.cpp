// Whether training finds known ranks: y = x W*, W* a tensor train of ranks 3, 5, 3, fitted by y = (x + x V) W
// with tensor trains of more than twice these ranks. V is superfluous.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/emulation/sanitizers.h"
#include "kernels/ops/layout.h"
#include "optim/optimizer.h"
#include "optim/rank_adaptation.h"
#include "tensorized/tt_linear_layer.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

constexpr std::int64_t width = 32, batch = 64;
const TTShape true_shape{{8, 4}, {4, 8}, {3, 5, 3}};
const TTShape large_shape{{8, 4}, {4, 8}, {7, 12, 7}};

Linear::Spec square(const char* name) {
  return {.name = name, .outputs = {""}, .input_size = width, .output_size = width};
}

class Regression {
 public:
  explicit Regression(int seed)
      : teacher_(teacher_store_, square("true"), {true_shape}, PlanKind::halves),
        first_(store_, square("first"), {large_shape}, PlanKind::halves),
        second_(store_, square("second"), {large_shape}, PlanKind::halves),
        seed_(static_cast<std::uint64_t>(seed)) {
    teacher_store_.allocate(host_allocator(), DType::float64, false);
    teacher_store_.initialize(seed_ + 100);
    // Entries of the true matrix of order one, not by the number of inputs.
    for (const ParameterId core : teacher_.train(0).cores) {
      auto values = read_tensor(teacher_store_.value(core));
      for (double& value : values) value *= std::pow(2.0, 0.25);
      write_tensor(teacher_store_.value(core), values);
    }
    store_.allocate(host_allocator(), DType::float64, true);
    store_.initialize(seed_);
    optimizer_ = make_optimizer(store_, {.weight_decay = 0}, host_allocator());
    for (const TTLinear* layer : {&first_, &second_})
      layers_.push_back(
          {.name = layer->spec().name, .cores = layer->train(0).cores, .gates = layer->train(0).gates});
    units_ = measure_rank_units(store_, layers_);
    importance_.emplace(store_, layers_);
  }

  void begin(const RankStageOptions& options) {
    ranks_.emplace(store_, layers_, units_, options, *importance_);
  }

  RankState train(int steps, double cores, double gates) {
    for (int step = 0; step < steps; ++step) one_step(cores, gates, static_cast<double>(step) / steps);
    return ranks_->state();
  }

  std::vector<std::int64_t> ranks(int layer) const {
    std::vector<std::int64_t> live;
    for (const ParameterId gate : layers_[layer].gates)
      live.push_back(std::ranges::count_if(read_tensor(store_.value(gate)), [](double d) { return d != 0; }));
    return live;
  }
  double loss() const { return loss_; }

 private:
  void one_step(double cores, double gates, double done) {
    const Context& context = harness_.context();
    const std::size_t mark = context.arena.mark();
    const Tensor x = context.arena.saved({batch, width}, DType::float64);
    write_tensor(x, normal_values(batch * width, seed_ * 1000000 + static_cast<std::uint64_t>(update_)));
    const auto wanted = teacher_.forward(context, x, {.biased = false});
    const auto inner = first_.forward(context, x, {.biased = false});
    run(context, Add{.x = x, .y = inner.output()});
    const auto got = second_.forward(context, inner.output(), {.biased = false});
    double sum = 0;
    auto* y = got.output().data<double>();
    for (std::int64_t i = 0; i < batch * width; ++i) {
      const double difference = y[i] - wanted.output().data<double>()[i];
      sum += difference * difference / 2;
      y[i] = difference;  // the gradient of the sum
    }
    const Tensor dinner = context.arena.saved({batch, width}, DType::float64);
    const Tensor dx = context.arena.saved({batch, width}, DType::float64);
    second_.backward(context, got, {got.output()}, dinner, false);
    first_.backward(context, inner, {dinner}, dx, false);
    loss_ = sum / (batch * width);
    StepInputs& inputs = harness_.inputs();
    inputs.targets = batch * width;
    inputs.rank_target = ranks_->options().objective.size_target;
    const double decay = std::min(1.0, 2 * (1 - done));  // constant, then linear
    inputs.learning_rate[0] = cores * decay, inputs.learning_rate[1] = gates * decay;
    harness_.results() = {};
    harness_.results().loss_sum = sum, harness_.results().target_count = batch * width;
    optimizer_->prepare(inputs, update_++);
    optimizer_->measure(context, harness_.step_inputs(), harness_.step_results());
    ranks_->descend(context, harness_.step_inputs(), harness_.step_results());
    optimizer_->update(context, harness_.step_inputs(), harness_.step_results());
    const Optimizer::Moments moments = optimizer_->moments();
    ranks_->prune(context, moments.first, moments.second, harness_.step_inputs(), harness_.step_results());
    context.arena.release(mark);
  }

  ParameterStore teacher_store_, store_;
  TTLinear teacher_, first_, second_;
  std::vector<RankedLayer> layers_;
  RankUnits units_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<GateImportance> importance_;
  std::optional<RankAdaptation> ranks_;
  Harness harness_{plain_backend(), std::size_t{8} << 20};
  std::uint64_t seed_;
  std::int64_t update_ = 0;
  double loss_ = 0;
};

constexpr double core_rate = 1e-2, gate_rate = 3e-3;

// Under a sanitizer, where each takes ten times as long, the first only.
template <class T>
std::vector<T> some(std::vector<T> cases) {
  if (COMERA_ASAN || COMERA_TSAN) cases.resize(1);
  return cases;
}

RankStageOptions early_stage() {
  RankStageOptions options;
  options.objective.gamma = options.objective.beta = 0.1;
  return options;
}

TEST(RankRegression, KnownRanksAreFoundAndTheSuperfluousLayerIsRemoved) {
  const std::vector<std::int64_t> nothing{0, 0, 0};
  for (const int seed : some(std::vector{1, 2, 3})) {
    Regression regression(seed);
    regression.begin(early_stage());
    const RankState state = regression.train(3000, core_rate, gate_rate);
    EXPECT_EQ(regression.ranks(0), nothing) << "seed " << seed;
    EXPECT_EQ(regression.ranks(1), true_shape.ranks) << "seed " << seed;
    EXPECT_EQ(state.removed, 1);
    EXPECT_LT(regression.loss(), 1e-3) << "the variance of y is about 2";
  }
}

// From a model that an early stage has hardly pruned yet.
TEST(RankRegression, LateStagesEndAtTheirTargetAndNotFarBelow) {
  for (const int seed : some(std::vector{1, 2, 3, 4, 5}))
    for (const double ratio : some(std::vector{0.5, 0.8, 0.2})) {
      Regression regression(seed);
      regression.begin(early_stage());
      const double before = regression.train(300, core_rate, gate_rate).size_left;
      RankStageOptions options;
      options.objective.stage = RankStage::compress;
      options.objective.size_target = ratio * before;
      regression.begin(options);
      const double ratio_reached = regression.train(1000, core_rate, gate_rate).size_left / before;
      EXPECT_LE(ratio_reached, ratio) << "seed " << seed;
      EXPECT_GT(ratio_reached, 0.95 * ratio) << "seed " << seed;
    }
}

}  // namespace
}  // namespace comera::test
