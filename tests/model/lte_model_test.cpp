// Models whose linear layers are frozen and trained through adapters.
#include <gtest/gtest.h>

#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "tensorized/linear/lte_linear.h"
#include "tests/model/configs.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

class LteAndDense : public testing::Test {
 protected:
  LteAndDense() : adapted_(config(), host_allocator(), true), dense_(dense_config(), host_allocator(), true) {
    adapted_.parameters().initialize(11);
    take_weights();
  }
  // Without dropout: the dense one's last block draws it for the rows that the head reads, the other one's
  // for all.
  static EncoderConfig config() {
    EncoderConfig config = lte_config();
    config.dropout = 0;
    return config;
  }
  static EncoderConfig dense_config() {
    EncoderConfig dense = config();
    dense.lte = {};
    return dense;
  }
  // The dense model's are the other one's.
  void take_weights() {
    const ParameterStore& from = adapted_.parameters();
    const ParameterStore& to = dense_.parameters();
    for (ParameterId id = 0; id < to.size(); ++id)
      write_tensor(to.value(id), read_tensor(from.value(*from.find(to.info(id).name))));
  }
  void move_adapters() {
    ParameterStore& store = adapted_.parameters();
    for (const ParameterId id : store.layout())
      if (LteLinear::is_adapter(store.info(id).name))
        write_tensor(store.value(id), normal_values(store.value(id).elements(), 40 + id));
  }
  double loss(Model& model, bool training) {
    const PackedBatch batch = random_batch({7, 3, 1, 10}, 29, model.token_embedding().right_rows());
    EXPECT_EQ(batch.capacity.tokens % 4, 0);
    harness_.results() = StepResults{};
    harness_.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
    model.run_micro_batch(
        {{harness_.context(), model.parameters(), harness_.step_inputs(), harness_.step_results(), training},
         batch},
        false);
    return harness_.results().loss_sum;
  }

  Harness harness_{reference_backend()};
  Model adapted_, dense_;
};

TEST_F(LteAndDense, EvaluationSeesTheWeightsOnly) {
  for (const bool training : {true, false}) EXPECT_EQ(loss(adapted_, training), loss(dense_, training));
  move_adapters();
  EXPECT_EQ(loss(adapted_, false), loss(dense_, false));
  EXPECT_GT(std::abs(loss(adapted_, true) - loss(dense_, true)), 1e-3);
}

// Then training sees the weights too, and they are what a dense model is given.
TEST_F(LteAndDense, AMergeMakesThemTheSame) {
  const double before = loss(dense_, false);
  move_adapters();
  adapted_.consolidate(harness_.context());
  take_weights();
  EXPECT_GT(std::abs(loss(adapted_, false) - before), 1e-3);
  for (const bool training : {true, false}) {
    const double expected = loss(dense_, training);
    EXPECT_NEAR(loss(adapted_, training), expected, 1e-10 * expected);
  }
}

// All but the linear layers of attention and feed-forward is trained as ever, the transform too.
TEST_F(LteAndDense, WhatIsFrozen) {
  const ParameterStore& store = adapted_.parameters();
  std::int64_t frozen = 0, merged = 0;
  for (ParameterId id = 0; id < store.size(); ++id) {
    const std::string& name = store.info(id).name;
    const bool of_layer = name.find(".attention.") != name.npos || name.find(".ffn.") != name.npos;
    const bool trained = !of_layer || name.ends_with(".lora_a") || name.ends_with(".lora_b");
    EXPECT_EQ(store.is_frozen(id), !trained) << name;
    if (LteLinear::is_adapter(name) && !trained) merged += store.value(id).elements();
    if (!trained) frozen += store.value(id).elements();
  }
  EXPECT_EQ(store.count(ParameterRole::frozen), frozen);
  EXPECT_EQ(frozen - merged, 2 * (4 * (12 * 12 + 12) + 12 * 24 + 24 + 24 * 12 + 12));
  EXPECT_EQ(store.count(), dense_.parameters().count() + 2 * merged);
}

}  // namespace
}  // namespace comera::test
