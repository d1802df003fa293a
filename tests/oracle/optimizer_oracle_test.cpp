#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "kernels/backends/processors.h"
#include "kernels/core/parameter.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "optim/optimizer.h"
#include "tests/support/harness.h"
#include "tests/support/largest.h"

// LAMB and GaLore against make_optimizer_fixture.py, computed with NumPy: all values after every update.
namespace comera::test {
namespace {

using Values = std::vector<double>;

nlohmann::json fixture() { return nlohmann::json::parse(std::ifstream(OPTIMIZER_FIXTURE)); }

GaloreProjection projection_of(const std::string& name) {
  for (int i = 0;; ++i)
    if (name == name_of(static_cast<GaloreProjection>(i))) return static_cast<GaloreProjection>(i);
}

OptimizerOptions options_of(const nlohmann::json& c) {
  OptimizerOptions options;
  options.kind = c["optimizer"] == "lamb" ? OptimizerKind::lamb : OptimizerKind::galore;
  options.beta1 = c["beta1"], options.beta2 = c["beta2"], options.eps = c["eps"];
  options.weight_decay = c["weight_decay"];
  if (const auto& galore = c["galore"]; !galore.is_null())
    options.galore = GaloreOptions{.rank = galore["rank"],
                                   .update_proj_gap = galore["update_proj_gap"],
                                   .scale = galore["scale"],
                                   .proj_type = projection_of(galore["proj_type"])};
  return options;
}

void expect_the_same_updates(const Processor& processor, DType dtype, double tolerance) {
  int cases = 0;
  for (const nlohmann::json& c : fixture()) {
    const std::vector<std::int64_t> shape = c["shape"];
    SCOPED_TRACE(fmt::format("{} {} x {} {}", c["optimizer"].get<std::string>(), shape[0], shape[1],
                             c["galore"].dump()));
    ParameterStore store;
    const ParameterId matrix = store.add({.name = "matrix",
                                          .shape = {shape[0], shape[1]},
                                          .decays = true,
                                          .initializer = {},
                                          .matrix_rows = shape[0]});
    const ParameterId vector = store.add({.name = "vector", .shape = {3}, .initializer = {}});
    store.allocate(processor.allocator, dtype, true);
    const auto optimizer = make_optimizer(store, options_of(c), processor.allocator);
    write_tensor(store.value(matrix), c["matrix"].get<Values>());
    write_tensor(store.value(vector), c["vector"].get<Values>());
    Harness harness(processor.backend, std::size_t{1} << 20);
    for (std::int64_t update = 0; const nlohmann::json& step : c["steps"]) {
      write_tensor(store.gradient(matrix), step["matrix_gradient"].get<Values>());
      write_tensor(store.gradient(vector), step["vector_gradient"].get<Values>());
      harness.inputs() = {}, harness.results() = {};
      std::ranges::fill(harness.inputs().learning_rate, c["rate"].get<double>());
      optimizer->prepare(harness.inputs(), update);
      if (optimizer->refreshes(update)) optimizer->refresh(0, 1);
      optimizer->apply(harness.context(), harness.step_inputs(), harness.step_results());
      ++update;
      for (const auto& [id, name] : {std::pair{matrix, "matrix"}, std::pair{vector, "vector"}}) {
        const Values found = read_tensor(store.value(id)), expected = step[name].get<Values>();
        double error = 0;
        for (std::size_t i = 0; i < found.size(); ++i)
          error = larger_or_nan(error, std::abs(found[i] - expected[i]));
        EXPECT_LE(error, tolerance) << name << " after update " << update;
      }
    }
    ++cases;
  }
  EXPECT_EQ(cases, 19);
}

TEST(OptimizerOracle, UpdatesInDoubleAreNumPys) {
  expect_the_same_updates({plain_backend(), host_allocator()}, DType::float64, 1e-10);
}

TEST(OptimizerOracle, UpdatesInFloatAreNumPysToRounding) {
  expect_the_same_updates(cpu_processor(), DType::float32, 2e-5);
}

}  // namespace
}  // namespace comera::test
