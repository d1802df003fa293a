// Losses of a student beside its teacher, and their gradients, beside PyTorch's
// (make_distillation_fixture.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/elementwise/cross_entropy.h"
#include "kernels/reference/reference_backend.h"
#include "model/layers/teacher_losses.h"
#include "tests/oracle/arithmetic.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<double>;

Json fixture() {
  std::ifstream file(DISTILLATION_FIXTURE);
  return Json::parse(file);
}

// With room for one sequence and two tokens more.
PackedBatch batch_of(const std::vector<std::int32_t>& lengths) {
  const std::int64_t sequences = std::ssize(lengths), room = sequences + 1;
  PackedBatch batch(host_allocator(), {.tokens = std::reduce(lengths.begin(), lengths.end()) + 2,
                                       .sequences = room,
                                       .longest = 8,
                                       .unique_ids = 1});
  auto* offsets = batch.sequence_offsets.data<std::int32_t>();
  for (std::int64_t s = 0; s < room; ++s)
    offsets[s + 1] = offsets[s] + (s < sequences ? lengths[static_cast<std::size_t>(s)] : 0);
  auto* counts = batch.counts.data<std::int32_t>();
  counts[0] = offsets[sequences];
  counts[1] = counts[4] = static_cast<std::int32_t>(sequences);
  return batch;
}

// Numbers in memory of its own, with zeros behind those given.
struct Held {
  Held(Shape shape, DType dtype, Numbers values)
      : memory(host_allocator(), static_cast<std::size_t>(shape.elements()) * size_of(dtype),
               MemoryKind::workspace),
        tensor(memory.tensor(shape, dtype)) {
    values.resize(static_cast<std::size_t>(shape.elements()));
    write_tensor(tensor, values);
  }
  Buffer memory;
  Tensor tensor;
};

void expect_encoder(const Json& all, const Json& one, const Backend& backend, DType dtype, double tolerance) {
  EncoderConfig config;
  config.head = HeadKind::contrastive;
  config.pooling = Pooling::mean;
  config.hidden = all["student_width"];
  const Json& weights = one["weights"];
  config.distillation = {.vectors = weights.value("vectors", 0.0),
                         .similarities = weights.value("similarities", 0.0),
                         .hidden = weights.value("hidden", 0.0),
                         .targets = false};
  const bool projected = weights.value("projected", false);
  const std::int64_t width = one["width"];
  if (projected) config.distillation.width = width;
  ParameterStore store;
  const TeacherLosses losses(store, config);
  store.allocate(host_allocator(), dtype, true);
  for (const ParameterId id : store.layout())
    write_tensor(store.value(id),
                 one[store.value(id).shape().dims() == 2 ? "weight" : "bias"].get<Numbers>());
  Harness harness(backend);
  const PackedBatch batch = batch_of(all["lengths"].get<std::vector<std::int32_t>>());
  const std::int64_t tokens = batch.capacity.tokens;
  const Held taught({tokens, width}, dtype, one["teacher"]),
      vectors({batch.capacity.sequences, width}, dtype, one["teacher_vectors"]),
      hidden({tokens, config.hidden}, dtype, one["hidden"]), dhidden({tokens, config.hidden}, dtype, {});
  const TeacherAnswers answers{
      .hidden = taught.tensor, .layers = {}, .vectors = vectors.tensor, .relations = {}, .logits = {}};
  const EncoderStep step({harness.context(), store, harness.step_inputs(), harness.step_results(), true},
                         batch, nullptr, &answers);
  harness.results() = StepResults{};
  losses.run(step, hidden.tensor, {}, true, dhidden.tensor, {});
  const double loss = one["loss"];
  EXPECT_NEAR(harness.results().loss_sum, loss, tolerance * loss);
  EXPECT_EQ(harness.results().target_count, std::ssize(all["lengths"]));
  auto wanted = one["gradient"].get<Numbers>();
  wanted.resize(static_cast<std::size_t>(tokens * config.hidden));
  EXPECT_LT(relative_error(read_tensor(dhidden.tensor), wanted), tolerance);
  for (const ParameterId id : store.layout())
    EXPECT_LT(
        relative_error(
            read_tensor(store.gradient(id)),
            one[store.value(id).shape().dims() == 2 ? "weight_gradient" : "bias_gradient"].get<Numbers>()),
        tolerance);
}

// Hidden states of all three layers.
void expect_layers(const Json& all, const Json& one, const Backend& backend, DType dtype, double tolerance) {
  EncoderConfig config;
  config.head = HeadKind::contrastive;
  config.layers = 3;
  config.hidden = all["student_width"];
  const std::int64_t width = one["width"];
  const bool projected = one.contains("weight");
  config.distillation = {.hidden = one["hidden"], .all_layers = true, .targets = false};
  if (projected) config.distillation.width = width;
  ParameterStore store;
  const TeacherLosses losses(store, config);
  store.allocate(host_allocator(), dtype, true);
  const auto kind = [&](ParameterId id) {
    return std::string(store.value(id).shape().dims() == 2 ? "weight" : "bias");
  };
  for (const ParameterId id : store.layout()) write_tensor(store.value(id), one[kind(id)].get<Numbers>());
  Harness harness(backend);
  const PackedBatch batch = batch_of(all["lengths"].get<std::vector<std::int32_t>>());
  const Shape shape{batch.capacity.tokens, config.hidden}, taught{batch.capacity.tokens, width};
  std::vector<Held> own, gradients, teacher;
  for (std::size_t i = 0; i < 3; ++i) {
    own.emplace_back(shape, dtype, one["own"][i].get<Numbers>());
    teacher.emplace_back(taught, dtype, one["teacher"][i].get<Numbers>());
    gradients.emplace_back(shape, dtype, Numbers());
  }
  const TeacherAnswers answers{.hidden = teacher[2].tensor,
                               .layers = {teacher[0].tensor, teacher[1].tensor},
                               .vectors = {},
                               .relations = {},
                               .logits = {}};
  const EncoderStep step({harness.context(), store, harness.step_inputs(), harness.step_results(), true},
                         batch, nullptr, &answers);
  harness.results() = StepResults{};
  losses.run(step, own[2].tensor, {}, true, gradients[2].tensor, {});
  for (const std::size_t i : {1U, 0U}) losses.add_layer(step, i, own[i].tensor, true, gradients[i].tensor);
  const double loss = one["loss"];
  EXPECT_NEAR(harness.results().loss_sum, loss, tolerance * loss);
  EXPECT_EQ(harness.results().target_count, std::ssize(all["lengths"]));
  for (std::size_t i = 0; i < 3; ++i) {
    auto wanted = one["gradients"][i].get<Numbers>();
    wanted.resize(static_cast<std::size_t>(shape.elements()));
    EXPECT_LT(relative_error(read_tensor(gradients[i].tensor), wanted), tolerance);
  }
  for (const ParameterId id : store.layout())
    EXPECT_LT(relative_error(read_tensor(store.gradient(id)), one[kind(id) + "_gradient"].get<Numbers>()),
              tolerance);
}

void expect_relations(const Json& all, const Json& one, const Backend& backend, DType dtype,
                      double tolerance) {
  EncoderConfig config;
  config.head = HeadKind::contrastive;
  config.hidden = all["student_width"];
  config.distillation = {.relations = one["relations"], .targets = false, .relation_heads = one["heads"]};
  ParameterStore store;
  const TeacherLosses losses(store, config);
  store.allocate(host_allocator(), dtype, true);
  Harness harness(backend);
  const PackedBatch batch = batch_of(all["lengths"].get<std::vector<std::int32_t>>());
  const Shape shape{batch.capacity.tokens, config.hidden},
      wide{batch.capacity.tokens, all["teacher_width"].get<std::int64_t>()};
  std::vector<Held> memory;
  TeacherAnswers answers;
  TeacherLosses::Relations own, gradients;
  for (std::size_t i = 0; i < own.size(); ++i) {
    answers.relations[i] = memory.emplace_back(wide, dtype, one["teacher"][i].get<Numbers>()).tensor;
    own[i] = memory.emplace_back(shape, dtype, one["own"][i].get<Numbers>()).tensor;
    gradients[i] = memory.emplace_back(shape, dtype, Numbers()).tensor;
  }
  const EncoderStep step({harness.context(), store, harness.step_inputs(), harness.step_results(), true},
                         batch, nullptr, &answers);
  harness.results() = StepResults{};
  losses.run(step, {}, own, true, {}, gradients);
  const double loss = one["loss"];
  EXPECT_NEAR(harness.results().loss_sum, loss, tolerance * loss);
  EXPECT_EQ(harness.results().target_count, std::ssize(all["lengths"]));
  for (std::size_t i = 0; i < own.size(); ++i) {
    auto wanted = one["gradients"][i].get<Numbers>();
    wanted.resize(static_cast<std::size_t>(shape.elements()));
    EXPECT_LT(relative_error(read_tensor(gradients[i]), wanted), tolerance);
  }
}

void expect_logits(const Json& one, std::int64_t classes, const Backend& backend, DType dtype,
                   double tolerance) {
  const auto given = one["logits"].get<Numbers>();
  const std::int64_t rows = std::ssize(given) / classes;
  const Held logits({1, rows, classes}, dtype, given), teacher({rows, classes}, dtype, one["teacher"]);
  const Buffer memory(host_allocator(), static_cast<std::size_t>(rows + 1) * sizeof(std::int32_t),
                      MemoryKind::workspace);
  const Tensor targets = memory.tensor({rows + 1}, DType::int32);
  std::ranges::copy(one["targets"].get<std::vector<std::int32_t>>(), targets.data<std::int32_t>());
  targets.data<std::int32_t>()[rows] = static_cast<std::int32_t>(rows);
  Harness harness(backend);
  harness.results() = StepResults{};
  softmax_losses(harness.context(),
                 {.logits = logits.tensor,
                  .bias = {},
                  .dbias = {},
                  .targets = targets.slice(0, {rows}),
                  .count = targets.slice(rows, {1}),
                  .row_begin = 0,
                  .classes = classes,
                  .gradient = true,
                  .results = harness.step_results()},
                 {.teacher = teacher.tensor,
                  .temperature = one["temperature"],
                  .factor = one["factor"],
                  .alone = one["alone"]});
  const double loss = one["loss"];
  EXPECT_NEAR(harness.results().loss_sum, loss, tolerance * loss);
  EXPECT_EQ(harness.results().target_count, rows);
  EXPECT_LT(relative_error(read_tensor(logits.tensor), one["gradient"].get<Numbers>()), tolerance);
}

TEST(DistillationOracle, LossesOfEncodersAreThoseOfPyTorch) {
  const Json all = fixture();
  ASSERT_EQ(all["encoders"].size(), 6u);
  for (const auto& [name, one] : all["encoders"].items()) {
    SCOPED_TRACE(name);
    expect_encoder(all, one, reference_backend(), DType::float64, 1e-9);
    expect_encoder(all, one, cpu_backend(), DType::float32, 3e-4);
  }
}

TEST(DistillationOracle, LossesOfAllLayersAreThoseOfPyTorch) {
  const Json all = fixture();
  ASSERT_EQ(all["layers"].size(), 2u);
  for (const auto& [name, one] : all["layers"].items()) {
    SCOPED_TRACE(name);
    expect_layers(all, one, reference_backend(), DType::float64, 1e-9);
    expect_layers(all, one, cpu_backend(), DType::float32, 3e-4);
  }
}

TEST(DistillationOracle, LossesOfRelationsAreThoseOfPyTorch) {
  const Json all = fixture();
  ASSERT_EQ(all["relations"].size(), 2u);
  for (const auto& [name, one] : all["relations"].items()) {
    SCOPED_TRACE(name);
    expect_relations(all, one, reference_backend(), DType::float64, 1e-9);
    expect_relations(all, one, cpu_backend(), DType::float32, 3e-4);
  }
}

TEST(DistillationOracle, LossesOfLogitsAreThoseOfPyTorch) {
  const Json all = fixture();
  ASSERT_EQ(all["logits"].size(), 3u);
  for (const auto& [name, one] : all["logits"].items()) {
    SCOPED_TRACE(name);
    expect_logits(one, all["classes"], reference_backend(), DType::float64, 1e-9);
    expect_logits(one, all["classes"], cpu_backend(), DType::float32, 3e-4);
  }
}

}  // namespace
}  // namespace comera::test
