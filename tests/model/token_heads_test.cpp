// The heads that read single tokens: labels of words, and the first and last token of an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "model/encoder_micro_batches.h"
#include "model/model.h"
#include "tests/model/configs.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

constexpr std::int64_t classes = 5;
const std::vector<int> lengths = {7, 3, 1, 10};

EncoderConfig config_of(HeadKind head, bool tensorized, NormPlacement norm = NormPlacement::post) {
  EncoderConfig config = small_config(tensorized, head, norm);
  config.classes = classes;
  return config;
}

std::int32_t* integers(const Tensor& tensor) { return tensor.data<std::int32_t>(); }

// The sequences of random_batch() with room for the head's targets, and those: random classes of every third
// token, or two random places in each sequence.
PackedBatch batch_for(HeadKind head, std::int64_t right_rows) {
  const PackedBatch sequences = random_batch(lengths, 29, right_rows);
  MicroBatchCapacity capacity = sequences.capacity;
  make_room_for_targets(head, capacity);
  PackedBatch batch(host_allocator(), capacity);
  for (const auto member : {&PackedBatch::token_ids, &PackedBatch::position_ids, &PackedBatch::type_ids,
                            &PackedBatch::sequence_offsets, &PackedBatch::unique_ids,
                            &PackedBatch::unique_index, &PackedBatch::unique_order,
                            &PackedBatch::unique_offsets, &PackedBatch::right_order, &PackedBatch::counts})
    std::memcpy((batch.*member).raw(), (sequences.*member).raw(), (sequences.*member).bytes());
  std::int32_t& count = integers(batch.counts)[2];
  count = 0;
  const auto add = [&](std::int32_t row, std::int32_t target) {
    integers(batch.masked_positions)[count] = row;
    integers(batch.masked_targets)[count++] = target;
  };
  std::int32_t row = 0;
  for (std::int32_t s = 0; s < std::ssize(lengths); ++s)
    for (std::int32_t i = 0; i < lengths[s]; ++i, ++row) {
      if (head == HeadKind::token_classification && row % 3 == 0) add(row, row * 7 % classes);
      if (head == HeadKind::question_answering && i < 2) add(row, i == 0 ? lengths[s] / 3 : lengths[s] - 1);
      if (head == HeadKind::question_answering && lengths[s] == 1) add(row, 0);
      if (capacity.slots > 0)
        integers(batch.slots)[row] = i * static_cast<std::int32_t>(capacity.sequences) + s;
    }
  return batch;
}

class TokenHeads : public testing::TestWithParam<HeadKind> {};

TEST_P(TokenHeads, GradientsAgreeWithCentralDifferences) {
  for (const bool tensorized : {false, true})
    for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre}) {
      const EncoderConfig config = config_of(GetParam(), tensorized, norm);
      Model model(config, host_allocator(), true);
      model.parameters().initialize(11);
      Harness harness(reference_backend());
      harness.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
      const PackedBatch batch = batch_for(GetParam(), model.token_embedding().right_rows());
      const EncoderStep step(
          {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true},
          batch);
      const auto loss = [&] {
        harness.results() = StepResults{};
        model.run_micro_batch(step, false);
        return harness.results().loss_sum;
      };
      const double before = loss();
      model.run_micro_batch(step, true);
      EXPECT_DOUBLE_EQ(harness.results().loss_sum, 2 * before);
      ParameterStore& store = model.parameters();
      for (const ParameterId id : store.layout())
        EXPECT_LT(finite_difference_error(store.value(id), store.gradient(id), loss), 1e-6)
            << store.info(id).name;
    }
}

// The logits of every token: (tokens, outputs).
std::vector<double> logits_of(const Model& model, const Backend& backend, const PackedBatch& batch) {
  Harness harness(backend);
  MicroBatchCapacity capacity = batch.capacity;
  capacity.masked = capacity.tokens, capacity.slots = 0;
  PackedBatch all = random_batch(lengths, 29, model.token_embedding().right_rows());
  PackedBatch asked(host_allocator(), capacity);
  for (const auto member : {&PackedBatch::token_ids, &PackedBatch::position_ids, &PackedBatch::type_ids,
                            &PackedBatch::sequence_offsets, &PackedBatch::unique_ids,
                            &PackedBatch::unique_index, &PackedBatch::unique_order,
                            &PackedBatch::unique_offsets, &PackedBatch::right_order, &PackedBatch::counts})
    std::memcpy((asked.*member).raw(), (all.*member).raw(), (all.*member).bytes());
  integers(asked.counts)[2] = integers(asked.counts)[0];
  for (std::int32_t i = 0; i < integers(asked.counts)[0]; ++i) integers(asked.masked_positions)[i] = i;
  const EncoderStep step(
      {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), false}, asked);
  const Tensor y =
      harness.tensor({capacity.masked, model.config().token_outputs()}, model.parameters().dtype());
  model.logits(step, y);
  return read_tensor(y);
}

// The loss by its definition, from the logits of all tokens.
double loss_by_logits(const PackedBatch& batch, const std::vector<double>& logits, HeadKind head) {
  double loss = 0;
  for (std::int32_t i = 0; i < integers(batch.counts)[2]; ++i) {
    const std::int32_t target = integers(batch.masked_targets)[i];
    std::vector<double> choices;
    if (head == HeadKind::token_classification) {
      const double* row = logits.data() + integers(batch.masked_positions)[i] * classes;
      choices.assign(row, row + classes);
    } else {
      const std::int32_t s = i / 2, begin = integers(batch.sequence_offsets)[s];
      for (std::int32_t t = begin; t < integers(batch.sequence_offsets)[s + 1]; ++t)
        choices.push_back(logits[2 * t + i % 2]);
    }
    double sum = 0;
    for (const double choice : choices) sum += std::exp(choice);
    loss += std::log(sum) - choices[target];
  }
  return loss;
}

TEST_P(TokenHeads, LossIsThatOfTheLogits) {
  for (const bool tensorized : {false, true})
    for (const DType compute : {DType::float64, DType::float32, DType::bfloat16}) {
      EncoderConfig config = config_of(GetParam(), tensorized);
      config.compute = compute;
      const Backend& backend = compute == DType::float64 ? reference_backend() : cpu_backend();
      Model model(config, host_allocator(), false);
      model.parameters().initialize(11);
      const PackedBatch batch = batch_for(GetParam(), model.token_embedding().right_rows());
      Harness harness(backend);
      model.run_micro_batch(
          {{harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), false},
           batch},
          false);
      const double expected = loss_by_logits(batch, logits_of(model, backend, batch), GetParam());
      const double tolerance = compute == DType::float64 ? 1e-12 : compute == DType::float32 ? 1e-5 : 0.02;
      EXPECT_NEAR(harness.results().loss_sum, expected, tolerance * expected);
      EXPECT_EQ(harness.results().target_count, integers(batch.counts)[2]);
    }
}

TEST_P(TokenHeads, PredictNothingForWholeSequences) {
  const Model model(config_of(GetParam(), false), host_allocator(), false);
  const PackedBatch batch = batch_for(GetParam(), 0);
  Harness harness(reference_backend());
  const EncoderStep step(
      {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), false}, batch);
  EXPECT_THROW(model.predict(step, harness.tensor({batch.capacity.sequences, 1}, DType::float64)), Error);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenHeads,
                         testing::Values(HeadKind::token_classification, HeadKind::question_answering),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// A head without a pooler has no layer that could be a tensor train.
TEST(TokenHead, IsDense) {
  const EncoderConfig config = config_of(HeadKind::token_classification, true);
  for (const EncoderConfig::LinearLayer& layer : config.linear_layers())
    EXPECT_FALSE(layer.name.starts_with("head.")) << layer.name;
}

}  // namespace
}  // namespace comera::test
