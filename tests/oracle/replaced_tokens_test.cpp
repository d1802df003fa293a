// Replaced-token detection beside PyTorch's (make_replaced_tokens_fixture.py): draws, losses and gradients.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/batching/batch.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

using Json = nlohmann::json;
using Integers = std::vector<std::int32_t>;

Json fixture() {
  std::ifstream file(REPLACED_TOKENS_FIXTURE);
  return Json::parse(file);
}

EncoderConfig config_of(const Json& all, const Json& one, DType dtype) {
  EncoderConfig config;
  config.layers = all["layers"], config.hidden = all["hidden"], config.heads = all["heads"];
  config.ffn = all["ffn"], config.vocabulary = all["vocabulary"], config.max_positions = all["positions"];
  config.norm_eps = all["eps"];
  config.dropout = config.attention_dropout = 0;
  config.head = HeadKind::replaced_tokens;
  config.generator = {.width = one["width"], .weight = one["weight"]};
  config.compute = dtype;
  return config;
}

// With room for one sequence, two tokens and one masked position more.
PackedBatch batch_of(const Json& all, const Json& one) {
  const Integers lengths = all["lengths"], ids = one["ids"], types = one["types"], masked = one["masked"],
                 targets = one["targets"];
  const MicroBatchCapacity capacity{.tokens = std::ssize(ids) + 2,
                                    .sequences = std::ssize(lengths) + 1,
                                    .longest = 12,
                                    .masked = std::ssize(masked) + 1,
                                    .unique_ids = all["vocabulary"]};
  data::Batch filled(capacity);
  std::int32_t begin = 0;
  for (const std::int32_t length : lengths) {
    Integers places, originals;
    for (std::size_t i = 0; i < masked.size(); ++i)
      if (masked[i] >= begin && masked[i] < begin + length)
        places.push_back(masked[i] - begin), originals.push_back(targets[i]);
    filled.add_sequence(ids.data() + begin, types.data() + begin, length, places, originals);
    begin += length;
  }
  finish_batch(filled, 0);
  PackedBatch batch(host_allocator(), capacity);
  std::memcpy(batch.block(), filled.block().data(), filled.block().size());
  return batch;
}

void expect_agreement(const Json& all, const Json& one, const Backend& backend, DType dtype,
                      double tolerance) {
  Model model(config_of(all, one, dtype), host_allocator(), true);
  ParameterStore& store = model.parameters();
  ASSERT_EQ(store.size(), std::ssize(one["parameters"]));
  for (const auto& [name, values] : one["parameters"].items()) {
    const auto id = store.find(name);
    ASSERT_TRUE(id) << name;
    write_tensor(store.value(*id), values.get<std::vector<double>>());
  }
  Harness harness(backend);
  const Json& key = all["key"];
  harness.inputs().dropout = {.seed = key["seed"], .step = key["step"], .micro_batch = key["micro_batch"]};
  harness.results() = StepResults{};
  const PackedBatch batch = batch_of(all, one);
  model.run_micro_batch(
      {{harness.context(), store, harness.step_inputs(), harness.step_results(), true}, batch}, true);
  const StepResults& results = harness.results();
  const double loss = one["loss"], detection = one["detection"];
  EXPECT_NEAR(results.loss_sum, loss, tolerance * loss);
  EXPECT_EQ(results.target_count, std::ssize(one["masked"]));
  EXPECT_EQ(results.correct, one["generator_right"]);
  EXPECT_NEAR(results.detection.loss_sum, detection, tolerance * detection);
  EXPECT_EQ(results.detection.tokens, std::ssize(one["ids"]));
  EXPECT_EQ(results.detection.replaced, one["replaced"]);
  EXPECT_EQ(results.detection.correct, one["right"]);
  EXPECT_EQ(results.detection.found, one["found"]);
  for (const auto& [name, values] : one["gradients"].items()) {
    const auto wanted = values.get<std::vector<double>>();
    if (name.ends_with("key.bias")) continue;  // 0 but for rounding
    EXPECT_LT(relative_error(read_tensor(store.gradient(*store.find(name))), wanted), tolerance) << name;
  }
}

TEST(ReplacedTokensOracle, DrawsLossesAndGradientsAreThoseOfPyTorch) {
  const Json all = fixture();
  ASSERT_EQ(all["cases"].size(), 2u);
  for (const auto& [name, one] : all["cases"].items()) {
    SCOPED_TRACE(name);
    expect_agreement(all, one, reference_backend(), DType::float64, 1e-9);
    expect_agreement(all, one, cpu_backend(), DType::float32, 3e-4);
  }
}

}  // namespace
}  // namespace comera::test
