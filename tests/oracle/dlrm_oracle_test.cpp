#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "data/clicks/click_batch.h"
#include "model/dlrm/click_micro_batches.h"
#include "tests/oracle/arithmetic.h"
#include "tests/oracle/error_of.h"
#include "training/step/step_engine.h"

// Ten steps of small DLRMs in the engine, against make_dlrm_fixture.py, which PyTorch ran.
namespace comera::test {
namespace {

using Values = std::vector<double>;

struct Case {
  std::string model;
  Arithmetic arithmetic;
  LookupKind lookup = LookupKind::factors;
  PlanKind plan = PlanKind::automatic;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  // With next to no eps the sign of a gradient decides, which rounding may change: in double only.
  cases.push_back({"dense_sparse", exact});
  for (const Arithmetic& arithmetic : {exact, quick}) {
    cases.push_back({"dense_sum", arithmetic});
    for (const char* model : {"trains_mean", "without_numbers"})
      for (const LookupKind lookup : {LookupKind::unique, LookupKind::factors})
        for (const PlanKind plan :
             {PlanKind::automatic, PlanKind::factors, PlanKind::dense, PlanKind::modewise})
          cases.push_back({model, arithmetic, lookup, plan});
  }
  return cases;
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.model << ' ' << c.arithmetic.name; }

std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  const Case& c = test.param;
  std::string name = c.model + "_" + c.arithmetic.name;
  if (!c.model.starts_with("dense")) name += fmt::format("_{}_{}", name_of(c.lookup), name_of(c.plan));
  return name;
}

nlohmann::json fixture_of(const std::string& model) {
  for (const nlohmann::json& c : nlohmann::json::parse(std::ifstream(DLRM_FIXTURE)))
    if (c["name"] == model) return c;
  return {};
}

std::vector<DlrmConfig::Layer> layers_in(const nlohmann::json& list) {
  std::vector<DlrmConfig::Layer> layers;
  for (const nlohmann::json& layer : list) {
    layers.push_back({.outputs = layer["outputs"], .train = {}});
    if (const nlohmann::json& train = layer["train"]; !train.is_null())
      layers.back().train = TTShape{train["input_modes"], train["output_modes"], train["ranks"]};
  }
  return layers;
}

DlrmConfig config_of(const nlohmann::json& fixture, const Case& c) {
  DlrmConfig config;
  config.dense_features = fixture["numbers"], config.width = fixture["width"];
  config.bottom = layers_in(fixture["bottom"]), config.top = layers_in(fixture["top"]);
  for (const nlohmann::json& table : fixture["tables"]) {
    config.tables.push_back({.rows = table["rows"], .train = {}});
    if (const nlohmann::json& train = table["train"]; !train.is_null())
      config.tables.back().train = TTMShape{train["row_modes"], train["column_modes"], train["ranks"]};
  }
  config.pooling = fixture["pooling"] == "mean" ? BagPooling::mean : BagPooling::sum;
  config.lookup = c.lookup, config.plan = c.plan, config.compute = c.arithmetic.dtype;
  config.sparse_updates = fixture.value("sparse_updates", false);
  return config;
}

OptimizerOptions optimizer_of(const nlohmann::json& fixture) {
  return {.beta1 = fixture["beta1"],
          .beta2 = fixture["beta2"],
          .eps = fixture["eps"],
          .weight_decay = fixture["weight_decay"],
          .decay_cores = fixture["decay_cores"]};
}

const std::map<std::string, RateGroup> groups = {{"core", RateGroup::core},
                                                 {"gate", RateGroup::gate},
                                                 {"dense", RateGroup::other},
                                                 {"embedding", RateGroup::embedding},
                                                 {"dense_table", RateGroup::dense_table}};

class DlrmOracle : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    for (const nlohmann::json& parameter : fixture_["parameters"]) {
      const std::string name = parameter["name"];
      const std::optional<ParameterId> id = store().find(name);
      ASSERT_TRUE(id) << "the model has no " << name;
      const ParameterInfo& info = store().info(*id);
      std::vector<std::int64_t> shape;
      for (int axis = 0; axis < info.shape.dims(); ++axis) shape.push_back(info.shape[axis]);
      ASSERT_EQ(shape, parameter["shape"].get<std::vector<std::int64_t>>()) << name;
      ASSERT_EQ(group_of(info, {}), groups.at(parameter["group"])) << name;
      write_tensor(store().value(*id), initial(parameter));
    }
    ASSERT_EQ(static_cast<int>(fixture_["parameters"].size()), store().size())
        << "the model has parameters of its own";
    engine_.set_micro_batches(ClickMicroBatches(model_, capacity()));
  }

  void TearDown() override {
    for (const auto& [what, worst] : worst_) RecordProperty(what, fmt::format("{:.1e}", worst));
  }

  ParameterStore& store() { return model_.parameters(); }

  static Values initial(const nlohmann::json& parameter) {
    Values values = parameter["initial_1024ths"];
    for (double& value : values) value /= 1024;
    return values;
  }

  // Room to spare for every step's batch.
  ClickCapacity capacity() const {
    ClickCapacity capacity{.examples = 0, .dense_features = model_.config().dense_features, .tables = {}};
    for (const DlrmConfig::Table& table : model_.config().tables)
      capacity.tables.push_back({.ids = 0, .unique_ids = table.rows});
    for (const nlohmann::json& step : fixture_["steps"]) {
      capacity.examples = std::max(capacity.examples, std::ssize(step["labels"]) + 2);
      for (std::size_t t = 0; t < capacity.tables.size(); ++t) {
        std::int64_t ids = 3;
        for (const nlohmann::json& bags : step["bags"]) ids += std::ssize(bags[t]);
        capacity.tables[t].ids = std::max(capacity.tables[t].ids, ids);
      }
    }
    return capacity;
  }

  // Examples [first, last) of a step.
  data::Clicks clicks(const nlohmann::json& step, std::size_t first, std::size_t last) const {
    data::Clicks clicks(capacity(), model_.right_rows());
    for (std::size_t b = first; b < last; ++b) {
      const std::vector<float> dense_features = step["numbers"][b];
      const std::vector<std::vector<std::int32_t>> bags = step["bags"][b];
      clicks.add(dense_features, {bags.begin(), bags.end()}, step["labels"][b]);
    }
    clicks.finish();
    return clicks;
  }

  Values answers_to(const nlohmann::json& step) {
    const data::Clicks all = clicks(step, 0, step["labels"].size());
    engine_.load(all.block());
    engine_.evaluate();
    Values logits = read_tensor(engine_.micro_batch().answers());
    logits.resize(static_cast<std::size_t>(all.examples()));
    return logits;
  }

  void expect_results(const StepResults& results, const nlohmann::json& step) {
    expect_near("loss", {results.loss_sum}, {step["loss"].get<double>()});
    EXPECT_EQ(results.target_count, static_cast<double>(step["labels"].size()));
    EXPECT_EQ(results.correct, step["correct"].get<double>());
  }

  void expect_near(const std::string& what, const Values& got, const Values& expected,
                   const std::string& where = "", double otherwise = 0) {
    const double error = error_of(got, expected, otherwise);
    double& worst = worst_[what];
    worst = larger_or_nan(worst, error);
    EXPECT_LT(error, GetParam().arithmetic.tolerance) << what << ' ' << where;
  }

  // Of every parameter by itself. `part` is what the model has of it, `expected` what the fixture has.
  template <class Part, class Expected>
  void expect_parameters_near(const std::string& what, Part&& part, Expected&& expected) {
    double otherwise = 0;
    for (const nlohmann::json& parameter : fixture_["parameters"])
      otherwise = larger_or_nan(otherwise, largest(expected(parameter)));
    for (const nlohmann::json& parameter : fixture_["parameters"])
      expect_near(what, part(*store().find(parameter["name"].get<std::string>()), parameter),
                  expected(parameter), parameter["name"], otherwise);
  }

  void expect_first_gradients() {
    expect_parameters_near(
        "gradient", [&](ParameterId id, const auto&) { return read_tensor(store().gradient(id)); },
        [](const nlohmann::json& parameter) { return parameter["first_gradient"].get<Values>(); });
  }

  // How far parameters have moved.
  void expect_last_parameters() {
    const auto moved = [](Values values, const nlohmann::json& parameter) {
      const Values from = initial(parameter);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] -= from[i];
      return values;
    };
    expect_parameters_near(
        "movement",
        [&](ParameterId id, const nlohmann::json& parameter) {
          return moved(read_tensor(store().value(id)), parameter);
        },
        [&](const nlohmann::json& parameter) { return moved(parameter["last"].get<Values>(), parameter); });
  }

  nlohmann::json fixture_ = fixture_of(GetParam().model);
  Dlrm model_{config_of(fixture_, GetParam()), host_allocator(), true};
  StepEngine engine_{model_, optimizer_of(fixture_), {GetParam().arithmetic.backend(), host_allocator()}};
  std::map<std::string, double> worst_;
};

// A step's examples come in one micro-batch, or in two.
TEST_P(DlrmOracle, TenStepsArePyTorchs) {
  StepRates rates(LearningRates::all(0));
  for (const auto& [name, group] : groups) rates.set(group, fixture_["rates"][name]);
  std::int64_t update = 0;
  for (const nlohmann::json& step : fixture_["steps"]) {
    SCOPED_TRACE(fmt::format("step {}", update));
    engine_.clear_results();
    expect_near("logits", answers_to(step), step["logits"]);
    expect_results(engine_.results(), step);

    engine_.clear_results();
    const std::size_t examples = step["labels"].size(),
                      first = update % 2 == 0 ? examples : (examples + 1) / 2;
    for (const auto& [begin, end] : {std::pair{std::size_t{0}, first}, std::pair{first, examples}}) {
      if (begin == end) continue;
      engine_.load(clicks(step, begin, end).block());
      engine_.micro({}, end == examples);
    }
    expect_results(engine_.results(), step);
    if (update == 0) expect_first_gradients();
    engine_.apply(update++, static_cast<double>(examples), rates, fixture_["max_norm"]);
    expect_near("norm", {engine_.results().gradient_norm}, {step["gradient_norm"].get<double>()});
  }
  ASSERT_EQ(update, 10);
  expect_last_parameters();
  expect_near("logits", answers_to(fixture_["steps"][0]), fixture_["last_logits_of_first_batch"],
              "at the end");
}

INSTANTIATE_TEST_SUITE_P(All, DlrmOracle, testing::ValuesIn(all_cases()), name_of_case);

}  // namespace
}  // namespace comera::test
