#include <gtest/gtest.h>

#include <span>

#include "model/model.h"
#include "optim/adamw.h"
#include "tests/oracle/arithmetic.h"
#include "tests/oracle/error_of.h"
#include "tests/oracle/fixture.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

struct Case {
  std::string encoder;
  Arithmetic arithmetic;
  LookupKind lookup = LookupKind::factors;
  PlanKind plan = PlanKind::automatic;
};

// Encoders whose name holds `part`, with all kinds of lookup and plan.
std::vector<Case> cases_of(std::string_view part) {
  std::vector<Case> cases;
  for (const Arithmetic& arithmetic : {exact, quick}) {
    for (const char* encoder : {"dense_mlm_post", "dense_classification_post", "dense_mlm_relative",
                                "dense_classification_rotary", "dense_mlm_narrow"})
      cases.push_back({encoder, arithmetic});
    for (const char* encoder :
         {"tensorized_mlm_post", "tensorized_classification_post", "tensorized_mlm_pre",
          "tensorized_mlm_relative", "tensorized_mlm_rotary", "tensorized_mlm_narrow",
          "tensorized_mlm_diagonal", "tensorized_classification_narrow", "tensorized_mlm_projected"})
      for (LookupKind lookup : {LookupKind::naive, LookupKind::unique, LookupKind::factors})
        for (PlanKind plan : {PlanKind::automatic, PlanKind::factors, PlanKind::dense, PlanKind::modewise})
          cases.push_back({encoder, arithmetic, lookup, plan});
  }
  std::erase_if(cases, [&](const Case& c) { return c.encoder.find(part) == std::string::npos; });
  return cases;
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.encoder << ' ' << c.arithmetic.name; }

std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  const Case& c = test.param;
  std::string name = c.encoder + "_" + c.arithmetic.name;
  if (!c.encoder.starts_with("dense")) name += std::string("_") + name_of(c.lookup) + "_" + name_of(c.plan);
  return name;
}

EncoderConfig configured(EncoderConfig config, const Case& c) {
  config.tensorized.lookup = c.lookup;
  config.tensorized.plan = c.plan;
  config.compute = c.arithmetic.dtype;
  return config;
}

class Oracle : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    std::size_t begin = 0;
    for (const auto& parameter : oracle_.parameters) {
      const std::optional<ParameterId> id = store().find(parameter.name);
      ASSERT_TRUE(id) << "the model has no " << parameter.name;
      const ParameterInfo& info = store().info(*id);
      std::string shape;
      for (int axis = 0; axis < info.shape.dims(); ++axis)
        shape += fmt::format("{}{}", axis > 0 ? "x" : "", info.shape[axis]);
      ASSERT_EQ(shape, parameter.shape) << parameter.name;
      ASSERT_EQ(name_of(info.role), parameter.role) << parameter.name;
      const std::span values(&oracle_.initial[begin], info.shape.elements());
      write_tensor(store().value(*id), {values.begin(), values.end()});
      begin += values.size();
      ids_.push_back(*id);
    }
    ASSERT_EQ(begin, oracle_.initial.size());
    ASSERT_EQ(static_cast<int>(ids_.size()), store().size()) << "the model has parameters of its own";
  }

  void TearDown() override { RecordProperty("worst", fmt::format("{:.1e}", worst_)); }

  ParameterStore& store() { return model_.parameters(); }
  double tolerance() const { return GetParam().arithmetic.tolerance; }
  EncoderStep step() {
    return {{harness_.context(), model_.parameters(), harness_.step_inputs(), harness_.step_results(), true},
            batch_};
  }

  void expect_near(std::span<const double> got, std::span<const double> expected, const std::string& what,
                   double otherwise = 0) {
    const double error = error_of(got, expected, otherwise);
    worst_ = larger_or_nan(worst_, error);
    EXPECT_LT(error, tolerance()) << what;
  }

  // Every parameter's part of two vectors that are laid out as the fixture's.
  void expect_tensors_near(const std::vector<double>& got, const std::vector<double>& expected,
                           const std::string& what) {
    ASSERT_EQ(got.size(), expected.size());
    const double otherwise = largest(expected);
    std::size_t begin = 0;
    for (ParameterId id : ids_) {
      const std::size_t count = store().info(id).shape.elements();
      expect_near(std::span(got).subspan(begin, count), std::span(expected).subspan(begin, count),
                  what + " of " + store().info(id).name, otherwise);
      begin += count;
    }
  }

  template <class Part>
  std::vector<double> gather(Part&& part) {
    std::vector<double> all;
    for (ParameterId id : ids_) {
      const std::vector<double> values = read_tensor(part(id));
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  std::vector<double> values() {
    return gather([&](ParameterId id) { return store().value(id); });
  }
  std::vector<double> gradients() {
    return gather([&](ParameterId id) { return store().gradient(id); });
  }

  double targets() const {
    const auto& sequences = oracle_.sequences;
    return static_cast<double>(oracle_.config.head == HeadKind::mlm ? sequences.masked_targets.size()
                                                                    : sequences.labels.size());
  }

  OracleCase oracle_ = read_oracle(GetParam().encoder);
  Model model_{configured(oracle_.config, GetParam()), host_allocator(), true};
  PackedBatch batch_ = micro_batch(oracle_, model_.token_embedding().right_rows());
  Harness harness_{GetParam().arithmetic.backend(), std::size_t{8} << 20};
  std::vector<ParameterId> ids_;  // in the fixture's order
  double worst_ = 0;
};

TEST_P(Oracle, HiddenStates) {
  const std::vector<double> hidden = read_tensor(model_.encode(step()));
  ASSERT_GE(hidden.size(), oracle_.hidden.size());  // rows beyond the tokens follow
  expect_near(std::span(hidden).first(oracle_.hidden.size()), oracle_.hidden, "hidden states");
}

// Logits over a vocabulary never exist: their loss and gradients speak for them.
class ClassificationOracle : public Oracle {};

TEST_P(ClassificationOracle, Logits) {
  const Tensor logits =
      harness_.tensor({batch_.capacity.sequences, oracle_.config.classes}, GetParam().arithmetic.dtype);
  model_.predict(step(), logits);
  const std::vector<double> got = read_tensor(logits);
  expect_near(std::span(got).first(oracle_.logits.size()), oracle_.logits, "logits");
}

TEST_P(Oracle, LossAndGradients) {
  model_.run_micro_batch(step(), true);
  const StepResults& results = harness_.results();
  expect_near({&results.loss_sum, 1}, {&oracle_.loss_sum, 1}, "loss");
  EXPECT_EQ(results.target_count, targets());
  EXPECT_EQ(results.correct, static_cast<double>(oracle_.correct));
  expect_tensors_near(gradients(), oracle_.gradient, "gradient");
}

TEST_P(Oracle, OptimizerSteps) {
  AdamWOptimizer optimizer(store(), oracle_.optimizer, host_allocator());
  StepInputs& inputs = harness_.inputs();
  StepRates(oracle_.rates).write_to(inputs);
  inputs.targets = targets();
  inputs.max_norm = oracle_.max_norm;
  const auto moved = [&](std::vector<double> after) {
    for (std::size_t i = 0; i < after.size(); ++i) after[i] -= oracle_.initial[i];
    return after;
  };
  for (std::size_t update = 0; update < oracle_.after_steps.size(); ++update) {
    harness_.results() = StepResults{};
    optimizer.prepare(inputs, static_cast<std::int64_t>(update));
    model_.run_micro_batch(step(), true);
    optimizer.apply(harness_.context(), harness_.step_inputs(), harness_.step_results());
    expect_near({&harness_.results().gradient_norm, 1}, {&oracle_.gradient_norms[update], 1},
                fmt::format("gradient norm of step {}", update));
    expect_tensors_near(moved(values()), moved(oracle_.after_steps[update]),
                        fmt::format("movement until step {}", update));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Oracle, testing::ValuesIn(cases_of("")), name_of_case);
INSTANTIATE_TEST_SUITE_P(All, ClassificationOracle, testing::ValuesIn(cases_of("classification")),
                         name_of_case);

}  // namespace
}  // namespace comera::test
