// The loss and the gradient of contrastive learning beside PyTorch's (make_contrastive_fixture.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "model/layers/contrastive_head.h"
#include "tensorized/fused/merging.h"
#include "tests/oracle/arithmetic.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

using Json = nlohmann::json;

Json fixture() {
  std::ifstream file(CONTRASTIVE_FIXTURE);
  return Json::parse(file);
}

// Of the case's sequences; with room for one example more.
PackedBatch batch_of(const Json& one) {
  const auto lengths = one["lengths"].get<std::vector<std::int32_t>>();
  const auto texts = one["texts"].get<std::int64_t>();
  const std::int64_t examples = std::ssize(lengths) / texts, room = examples + 1;
  PackedBatch batch(host_allocator(), {.tokens = std::reduce(lengths.begin(), lengths.end()) + 2,
                                       .sequences = room * texts,
                                       .longest = 8,
                                       .unique_ids = 1,
                                       .scores = (texts - 1) * room});
  auto* offsets = batch.sequence_offsets.data<std::int32_t>();
  for (std::int64_t s = 0; s < room * texts; ++s)
    offsets[s + 1] = offsets[s] + (s < std::ssize(lengths) ? lengths[static_cast<std::size_t>(s)] : 0);
  auto* scores = batch.scores.data<float>();
  std::fill_n(scores, batch.scores.elements(), -1e9F);
  for (std::int64_t e = 0; e < examples; ++e) {
    batch.labels.data<std::int32_t>()[e] = static_cast<std::int32_t>(e);
    for (std::int64_t kind = 0; kind + 1 < texts; ++kind)
      std::fill_n(scores + e * batch.capacity.scores + kind * room, examples, 0.F);
  }
  for (const auto& pair : one.value("excluded", std::vector<std::array<std::int64_t, 2>>()))
    scores[pair[0] * batch.capacity.scores + pair[1]] = -1e9F;
  auto* counts = batch.counts.data<std::int32_t>();
  counts[0] = offsets[std::ssize(lengths)];
  counts[1] = static_cast<std::int32_t>(lengths.size());
  counts[4] = static_cast<std::int32_t>(examples);
  return batch;
}

void expect_case(const Json& one, const Backend& backend, DType dtype, double tolerance) {
  EncoderConfig config;
  config.head = HeadKind::contrastive;
  config.pooling = Pooling::mean;
  config.contrastive = {
      .texts = one["texts"], .temperature = one["temperature"], .symmetric = one["symmetric"]};
  const ContrastiveHead head(config);
  Harness harness(backend);
  ParameterStore store;
  store.allocate(host_allocator(), dtype, true);
  const PackedBatch batch = batch_of(one);
  const EncoderStep step({harness.context(), store, harness.step_inputs(), harness.step_results(), true},
                         batch);
  const std::int64_t width = one["width"];
  auto values = one["hidden"].get<std::vector<double>>(), wanted = one["gradient"].get<std::vector<double>>();
  const auto all = static_cast<std::size_t>(batch.capacity.tokens * width);
  values.resize(all), wanted.resize(all);
  const Buffer memory(host_allocator(), 2 * all * size_of(dtype), MemoryKind::workspace);
  const Tensor hidden =
      memory.tensor({2 * batch.capacity.tokens, width}, dtype).rows(0, batch.capacity.tokens);
  const Tensor dhidden = memory.tensor({2 * batch.capacity.tokens, width}, dtype)
                             .rows(batch.capacity.tokens, batch.capacity.tokens);
  write_tensor(hidden, values);
  const Merging merging(Device{}, dtype);
  MergedGradients gradients(harness.context(), merging, 0);
  harness.results() = StepResults{};
  head.forward_backward(step, hidden, dhidden, gradients);
  const double loss = one["loss"];
  EXPECT_NEAR(harness.results().loss_sum, loss, tolerance * loss);
  EXPECT_LT(relative_error(read_tensor(dhidden), wanted), tolerance);
}

TEST(ContrastiveOracle, LossAndGradientAreThoseOfPyTorch) {
  const Json all = fixture();
  ASSERT_EQ(all.size(), 4u);
  for (const auto& [name, one] : all.items()) {
    SCOPED_TRACE(name);
    expect_case(one, reference_backend(), DType::float64, 1e-9);
    expect_case(one, cpu_backend(), DType::float32, 3e-4);
  }
}

}  // namespace
}  // namespace comera::test
