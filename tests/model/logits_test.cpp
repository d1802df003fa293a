#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "tests/model/configs.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

struct Judged {
  double loss = 0;     // nats, over all targets
  double correct = 0;  // targets with the largest logit
};

// What logits say of a batch's targets, and what the loss itself says.
struct Both {
  Judged by_logits, by_loss;
};

Both judge(const EncoderConfig& config, const Backend& backend) {
  Model model(config, host_allocator(), false);
  model.parameters().initialize(11);
  // Not 0, so that it is missed where it is left out.
  const Tensor bias = model.parameters().value(*model.parameters().find("head.bias"));
  write_tensor(bias, normal_values(bias.elements(), 5));
  const PackedBatch batch =
      random_batch({7, 3, 1, 10}, config.vocabulary, model.token_embedding().right_rows());
  Harness harness(backend);
  const EncoderStep step(
      {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), false}, batch);
  const Tensor logits =
      harness.tensor({batch.capacity.masked, config.vocabulary}, model.parameters().dtype());
  model.logits(step, logits);
  model.run_micro_batch(step, false);
  Both both;
  both.by_loss = {harness.results().loss_sum, static_cast<double>(harness.results().correct)};
  const std::vector<double> values = read_tensor(logits);
  const std::int32_t masked = batch.masked_count().data<std::int32_t>()[0];
  EXPECT_GT(masked, 3);
  for (std::int32_t row = 0; row < masked; ++row) {
    const std::span<const double> own = std::span(values).subspan(row * config.vocabulary, config.vocabulary);
    double sum = 0;
    for (const double logit : own) sum += std::exp(logit);
    const double target = own[batch.masked_targets.data<std::int32_t>()[row]];
    both.by_logits.loss += std::log(sum) - target;
    both.by_logits.correct += *std::ranges::max_element(own) == target;
  }
  return both;
}

void expect_equal(const Both& both, double tolerance) {
  EXPECT_NEAR(both.by_logits.loss, both.by_loss.loss, tolerance * both.by_loss.loss);
  EXPECT_EQ(both.by_logits.correct, both.by_loss.correct);
}

void expect_logits_give_the_loss(EncoderConfig config) {
  expect_equal(judge(config, reference_backend()), 1e-12);
  config.compute = DType::float32;
  expect_equal(judge(config, cpu_backend()), 1e-5);
  config.compute = DType::bfloat16;
  const Both narrow = judge(config, cpu_backend());
  EXPECT_NEAR(narrow.by_logits.loss, narrow.by_loss.loss, 0.02 * narrow.by_loss.loss);
}

// The loss is the cross-entropy of the softmax of the logits: of every kind of embedding, and without the
// rows that pad a tensor-train matrix (29 ids in 32 rows).
TEST(Logits, GiveTheLoss) {
  for (const bool tensorized : {false, true})
    for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre})
      expect_logits_give_the_loss(small_config(tensorized, HeadKind::mlm, norm));
}

// The same with a projection behind the embedding's train.
TEST(Logits, OfAProjectedTableGiveTheLoss) {
  EncoderConfig config = projected_config();
  expect_equal(judge(config, reference_backend()), 1e-12);
  config.compute = DType::float32;
  expect_equal(judge(config, cpu_backend()), 1e-5);
}

// The same with rows of their own for some ids, with and without a projection.
TEST(Logits, OfATableWithFrequentRowsGiveTheLoss) {
  for (EncoderConfig config : {frequent_config(), projected_config()}) {
    config.tensorized.embedding->frequent_rows = 9;
    expect_logits_give_the_loss(config);
  }
}

// A table that is rebuilt in several pieces, the last of which is not whole.
TEST(Logits, OfALargeVocabulary) {
  EncoderConfig config = small_config(true);
  config.hidden = 64, config.heads = 2, config.ffn = 64;
  config.vocabulary = 40000;
  config.tensorized = {};
  config.tensorized.embedding = TTMShape{{22, 2000}, {8, 8}, {6}};
  config.compute = DType::float32;
  expect_equal(judge(config, cpu_backend()), 1e-5);
  config.tensorized.embedding->frequent_rows = 7000;  // whole pieces and a part of one
  expect_equal(judge(config, cpu_backend()), 1e-5);
}

TEST(Logits, AreNoneOfAModelWithAnotherHead) {
  const EncoderConfig config = small_config(false, HeadKind::classification);
  const Model model(config, host_allocator(), false);
  const PackedBatch batch = random_batch({7, 3}, config.vocabulary, 0);
  Harness harness(reference_backend());
  const EncoderStep step(
      {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), false}, batch);
  EXPECT_THROW(model.logits(step, harness.tensor({batch.capacity.masked, config.vocabulary}, DType::float64)),
               Error);
}

}  // namespace
}  // namespace comera::test
