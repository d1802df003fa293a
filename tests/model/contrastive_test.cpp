#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "tests/model/configs.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

constexpr float no_candidate = -1e9F;

struct Case {
  std::int64_t texts = 2;
  bool symmetric = false;
  Pooling pooling = Pooling::mean;
  std::int64_t size = 0;  // of a layer behind the pooling
  bool tanh = false;
};

EncoderConfig contrastive_config(const Case& of, DType compute = DType::float64) {
  EncoderConfig config = small_config(true, HeadKind::contrastive);
  config.contrastive = {.texts = of.texts, .temperature = 0.3, .symmetric = of.symmetric};
  config.pooling = of.pooling;
  config.vector_size = of.size;
  config.vector_tanh = of.tanh;
  config.compute = compute;
  return config;
}

// Examples of which the last two have equal documents. Room for more sequences than there are.
PackedBatch batch_for(const EncoderConfig& config, std::int64_t right_rows) {
  const std::int64_t texts = config.contrastive.texts;
  const std::vector<int> lengths =
      texts == 2 ? std::vector{7, 3, 1, 10, 4, 5, 2, 5} : std::vector{7, 3, 1, 10, 4, 5, 2, 5, 6, 3, 5, 4};
  const std::int64_t examples = std::ssize(lengths) / texts, sequences = std::ssize(lengths) + 1,
                     room = config.contrastive.examples(sequences), documents = (texts - 1) * room;
  PackedBatch batch = random_batch(lengths, config.vocabulary, right_rows, 1, 3, 0, documents);
  float* scores = batch.scores.data<float>();
  std::fill_n(scores, batch.scores.elements(), no_candidate);
  for (std::int64_t e = 0; e < examples; ++e) {
    batch.labels.data<std::int32_t>()[e] = static_cast<std::int32_t>(e);
    for (std::int64_t j = 0; j < examples; ++j)
      for (std::int64_t kind = 0; kind + 1 < texts; ++kind) {
        const bool same = kind == 0 && e != j && std::min(e, j) == examples - 2;
        if (!same) scores[e * documents + kind * room + j] = 0;
      }
  }
  batch.counts.data<std::int32_t>()[4] = static_cast<std::int32_t>(examples);
  return batch;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {{.texts = 2},
                                        {.texts = 2, .symmetric = true},
                                        {.texts = 3},
                                        {.texts = 2, .symmetric = false, .pooling = Pooling::first},
                                        {.texts = 3, .symmetric = false, .pooling = Pooling::first},
                                        {.texts = 2, .size = 5},
                                        {.texts = 3, .pooling = Pooling::first, .size = 40, .tanh = true}};
  return all;
}

// The loss by its definition, from the vectors of `embed`.
double plain_loss(const Model& model, const EncoderStep& step) {
  const EncoderConfig& config = model.config();
  const std::int64_t width = config.vector_width(), sequences = step.batch.capacity.sequences,
                     texts = config.contrastive.texts, room = config.contrastive.examples(sequences);
  const Buffer memory(host_allocator(), sequences * width * sizeof(double), MemoryKind::workspace);
  const Tensor vectors = memory.tensor({sequences, width}, DType::float64);
  model.embed(step, config.pooling, vectors);
  const auto dot = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t i = 0; i < width; ++i)
      sum += vectors.data<double>()[a * width + i] * vectors.data<double>()[b * width + i];
    return sum;
  };
  const std::int64_t examples = step.batch.counts.data<std::int32_t>()[4], documents = (texts - 1) * room;
  const auto logit = [&](std::int64_t e, std::int64_t column) {
    const std::int64_t q = e * texts, d = column % room * texts + 1 + column / room;
    const double score = step.batch.scores.data<float>()[e * documents + column];
    return score < 0 ? -INFINITY
                     : dot(q, d) / std::sqrt(dot(q, q) * dot(d, d)) / config.contrastive.temperature;
  };
  double loss = 0;
  for (std::int64_t e = 0; e < examples; ++e) {
    double row = 0, column = 0;
    for (std::int64_t j = 0; j < documents; ++j) row += std::exp(logit(e, j));
    for (std::int64_t j = 0; j < examples; ++j) column += std::exp(logit(j, e));
    loss += std::log(row) - logit(e, e);
    if (config.contrastive.symmetric) loss += std::log(column) - logit(e, e);
  }
  return loss;
}

TEST(Contrastive, LossIsThatOfItsDefinition) {
  for (const Case& of : cases()) {
    const EncoderConfig config = contrastive_config(of);
    Model model(config, host_allocator(), true);
    model.parameters().initialize(11);
    Harness harness(reference_backend());
    const PackedBatch batch = batch_for(config, model.token_embedding().right_rows());
    const EncoderStep step(
        {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), false}, batch);
    harness.results() = StepResults{};
    model.run_micro_batch(step, false);
    EXPECT_NEAR(harness.results().loss_sum, plain_loss(model, step), 1e-10);
    EXPECT_EQ(harness.results().target_count, of.symmetric ? 8 : 4);
  }
}

// Of the whole model, with dropout, masked candidates and room that is not used.
TEST(Contrastive, GradientsAgreeWithCentralDifferences) {
  for (const Case& of : cases()) {
    const EncoderConfig config = contrastive_config(of);
    Model model(config, host_allocator(), true);
    model.parameters().initialize(11);
    Harness harness(reference_backend());
    harness.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
    const PackedBatch batch = batch_for(config, model.token_embedding().right_rows());
    const EncoderStep step(
        {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true}, batch);
    const auto loss = [&] {
      harness.results() = StepResults{};
      model.run_micro_batch(step, false);
      return harness.results().loss_sum;
    };
    model.run_micro_batch(step, true);
    ParameterStore& store = model.parameters();
    for (const ParameterId id : store.layout())
      EXPECT_LT(finite_difference_error(store.value(id), store.gradient(id), loss), 1e-6)
          << store.info(id).name << ", " << of.texts << " texts";
  }
}

// The backend of processors in float32, beside the reference in double.
TEST(Contrastive, CpuAgreesWithTheReference) {
  for (const Case& of : cases()) {
    std::vector<std::vector<double>> gradients;  // of all parameters, one after the other
    std::vector<double> losses;
    for (const bool cpu : {false, true}) {
      const EncoderConfig config = contrastive_config(of, cpu ? DType::float32 : DType::float64);
      Model model(config, host_allocator(), true);
      model.parameters().initialize(11);
      Harness harness(cpu ? cpu_backend() : reference_backend());
      harness.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
      const PackedBatch batch = batch_for(config, model.token_embedding().right_rows());
      model.run_micro_batch(
          {{harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true},
           batch},
          true);
      losses.push_back(harness.results().loss_sum);
      std::vector<double>& all = gradients.emplace_back();
      for (const ParameterId id : model.parameters().layout()) {
        const std::vector<double> one = read_tensor(model.parameters().gradient(id));
        all.insert(all.end(), one.begin(), one.end());
      }
    }
    EXPECT_NEAR(losses[0], losses[1], 1e-4 * losses[0]);
    EXPECT_LT(relative_error(gradients[1], gradients[0]), 1e-4);
  }
}

TEST(Contrastive, RefusesWhatItCannotLearn) {
  EncoderConfig config = contrastive_config({.texts = 3, .symmetric = true});
  EXPECT_THROW(config.validate(), Error);
  config = contrastive_config({});
  config.contrastive.temperature = 0;
  EXPECT_THROW(config.validate(), Error);
}

}  // namespace
}  // namespace comera::test
