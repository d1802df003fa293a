// Layers with frozen weights and adapters, and layers of low rank, trained beside an independent program.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/reference/reference_backend.h"
#include "optim/optimizer.h"
#include "tensorized/linear/linear.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

using Json = nlohmann::json;

void flatten(const Json& json, std::vector<double>& out) {
  if (!json.is_array()) return out.push_back(json);
  for (const Json& entry : json) flatten(entry, out);
}
std::vector<double> numbers(const Json& json) {
  std::vector<double> out;
  flatten(json, out);
  return out;
}
std::vector<double> transposed(const std::vector<double>& matrix, std::int64_t columns) {
  const std::int64_t rows = std::ssize(matrix) / columns;
  std::vector<double> out;
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i) out.push_back(matrix[i * columns + j]);
  return out;
}

constexpr double tolerance = 1e-10;

// One layer with tanh behind it, in double, trained as make_methods_fixture.py trains it.
class Methods : public testing::Test {
 protected:
  Methods() : harness_(reference_backend()) {
    std::ifstream file(METHODS_FIXTURE);
    fixture_ = Json::parse(file);
  }
  double number(const char* key) const { return fixture_.at(key); }
  std::int64_t size(const char* key) const { return fixture_.at(key); }

  // names: what the fixture calls the layer's parameters. W of the fixture is the layer's transposed.
  void expect_the_same(const char* method, const LinearForm& form,
                       const std::map<std::string, std::string>& names) {
    const Json& expected = fixture_.at(method);
    const std::int64_t n = size("inputs"), m = size("outputs"), tokens = size("tokens");
    ParameterStore store;
    const auto layer =
        make_linear(store, {.name = "l", .outputs = {""}, .input_size = n, .output_size = m}, form);
    store.allocate(host_allocator(), DType::float64, true);
    ASSERT_EQ(store.size(), std::ssize(names));
    const auto of_fixture = [&](const char* when, const std::string& name) {
      const std::vector<double> values = numbers(expected.at(when).at(name));
      return name == "W" ? transposed(values, n) : values;
    };
    for (const auto& [ours, theirs] : names)
      write_tensor(store.value(*store.find("l." + ours)), of_fixture("initial", theirs));
    const auto optimizer = make_optimizer(store,
                                          {.beta1 = number("beta1"),
                                           .beta2 = number("beta2"),
                                           .eps = number("eps"),
                                           .weight_decay = number("weight_decay")},
                                          host_allocator());
    const Tensor x = harness_.tensor({tokens, n}, DType::float64, numbers(expected.at("x")));
    const std::vector<double> target = numbers(expected.at("target"));
    StepInputs& inputs = harness_.inputs();
    std::ranges::fill(inputs.learning_rate, number("rate"));
    inputs.targets = static_cast<double>(tokens);
    inputs.max_norm = 0;
    for (int step = 0; step < size("steps"); ++step) {
      double loss = run(*layer, x, target, true);
      EXPECT_NEAR(loss, expected.at("losses")[step], tolerance * loss) << "step " << step;
      harness_.results() = StepResults{};
      optimizer->prepare(inputs, step);
      optimizer->apply(harness_.context(), harness_.step_inputs(), harness_.step_results());
      if ((step + 1) % size("merge_steps") == 0) layer->consolidate(harness_.context());
      loss = run(*layer, x, target, false);
      EXPECT_NEAR(loss, expected.at("evaluated")[step], tolerance * loss) << "step " << step;
    }
    for (const auto& [ours, theirs] : names)
      EXPECT_LT(
          relative_error(read_tensor(store.value(*store.find("l." + ours))), of_fixture("final", theirs)),
          tolerance)
          << ours;
  }

 private:
  // The loss; in training gradients too.
  double run(const Linear& layer, const Tensor& x, const std::vector<double>& target, bool training) {
    const Context& context = harness_.context();
    const std::size_t mark = context.arena.mark();
    const auto saved = layer.forward(context, x, {.activation = Activation::tanh, .training = training});
    std::vector<double> dy = read_tensor(saved.output());
    double loss = 0;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      dy[i] -= target[i];
      loss += 0.5 * dy[i] * dy[i];
    }
    if (training)
      layer.backward(context, saved, {harness_.tensor(saved.output().shape(), DType::float64, dy)},
                     harness_.tensor(x.shape(), DType::float64), false);
    context.arena.release(mark);
    return loss;
  }

  Harness harness_;

 protected:
  Json fixture_;
};

TEST_F(Methods, LoraTheExplorer) {
  const double alpha = fixture_.at("lte").at("alpha");
  expect_the_same("lte", LteForm{.lora_r = size("rank"), .lora_alpha = alpha, .num_heads = size("heads")},
                  {{"weight", "W"},
                   {"bias", "b"},
                   {"lora_a", "A"},
                   {"lora_b", "B"},
                   {"merged_a", "merged_A"},
                   {"merged_b", "merged_B"}});
}

TEST_F(Methods, LowRank) {
  expect_the_same("low_rank", LowRankForm{.rank = size("rank")}, {{"u", "U"}, {"v", "V"}, {"bias", "b"}});
}

}  // namespace
}  // namespace comera::test
