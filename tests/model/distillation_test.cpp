#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/processor.h"
#include "kernels/reference/reference_backend.h"
#include "model/encoder_micro_batches.h"
#include "model/teacher.h"
#include "tests/model/configs.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

struct Case {
  const char* name;
  HeadKind head;
  DistillationConfig learned;
  bool wider = true;  // than the student: the teacher
  Pooling pooling = Pooling::mean;
  NormPlacement norm = NormPlacement::post;
  std::int64_t size = 0, taught_size = 0;  // of layers behind the pooling
};

const std::vector<Case>& cases() {
  constexpr std::int64_t width = 18;
  const auto mlm = HeadKind::mlm, vectors = HeadKind::contrastive;
  static const std::vector<Case> all = {
      {"vectors", vectors, {.vectors = 0.7, .targets = false, .width = width}},
      {"vectors of one width", vectors, {.vectors = 1, .targets = false}, false},
      {"similarities", vectors, {.similarities = 2, .targets = false}},
      {"hidden states", vectors, {.hidden = 1.5, .targets = false, .width = width}},
      {"hidden states of all layers",
       vectors,
       {.hidden = 1.5, .all_layers = true, .targets = false, .width = width}},
      {"hidden states of all layers of one width, and pieces",
       mlm,
       {.hidden = 0.5, .all_layers = true, .relations = 0.7, .logits = 0.5, .targets = true},
       false,
       Pooling::mean,
       NormPlacement::pre},
      {"hidden states of one width", mlm, {.hidden = 1, .targets = false}, false},
      {"all of an encoder",
       vectors,
       {.vectors = 1, .similarities = 1, .hidden = 1, .targets = false, .width = width},
       true,
       Pooling::mean,
       NormPlacement::pre},
      {"relations", vectors, {.relations = 1.3, .targets = false, .relation_heads = 2}},
      {"relations by the student's heads", mlm, {.relations = 0.6, .targets = true}},
      {"relations, hidden states and pieces",
       mlm,
       {.hidden = 0.5,
        .relations = 0.7,
        .logits = 0.5,
        .targets = false,
        .relation_heads = 6,
        .width = width},
       true,
       Pooling::mean,
       NormPlacement::pre},
      {"first tokens",
       vectors,
       {.vectors = 1, .similarities = 1, .targets = false, .width = width},
       true,
       Pooling::first},
      {"pieces", mlm, {.logits = 1, .temperature = 2, .targets = false}},
      {"pieces and targets", mlm, {.logits = 0.5, .temperature = 1.5, .targets = true}},
      {"pieces, targets and hidden states",
       mlm,
       {.hidden = 0.5, .logits = 0.5, .temperature = 1.5, .targets = true, .width = width},
       true,
       Pooling::mean,
       NormPlacement::pre},
      {"classes", HeadKind::classification, {.logits = 1, .temperature = 3, .targets = false}},
      {"classes, targets and hidden states",
       HeadKind::classification,
       {.hidden = 1, .logits = 1, .temperature = 1, .targets = true, .width = width}},
      {"scores", HeadKind::regression, {.logits = 0.7, .targets = false}},
      {"scores and targets", HeadKind::regression, {.logits = 0.7, .targets = true}},
      {"hidden states beside several labels",
       HeadKind::multi_label,
       {.hidden = 1, .targets = true, .width = width}},
      {"vectors beside pairs", vectors, {.vectors = 1, .similarities = 1, .targets = true, .width = width}},
      {"vectors behind layers of one size",
       vectors,
       {.vectors = 1, .similarities = 1, .targets = false},
       true,
       Pooling::first,
       NormPlacement::post,
       7,
       7},
      {"vectors behind layers of two sizes, beside pairs",
       vectors,
       {.vectors = 1, .similarities = 1, .targets = true, .width = 9},
       true,
       Pooling::mean,
       NormPlacement::pre,
       5,
       9},
      {"classes of tokens", HeadKind::token_classification, {.logits = 1, .temperature = 2, .targets = true}},
  };
  return all;
}

EncoderConfig student_config(const Case& of, DType compute) {
  EncoderConfig config = small_config(true, of.head, of.norm);
  config.distillation = of.learned;
  config.pooling = of.head == HeadKind::contrastive ? of.pooling : config.pooling;
  config.vector_size = of.size;
  config.vector_tanh = true;
  config.compute = compute;
  return config;
}

// Of tensor trains, too, where it is as wide as the student.
EncoderConfig teacher_config(const Case& of, DType compute) {
  EncoderConfig config = small_config(!of.wider, of.head);
  if (of.wider) config.hidden = 18;
  config.layers = 3;
  config.vector_size = of.taught_size;
  config.compute = compute;
  return config;
}

// Two pairs of texts for a head that learns them; of several labels one or none.
PackedBatch batch_for(const Model& student) {
  const EncoderConfig& config = student.config();
  const bool pairs = config.head == HeadKind::contrastive && config.distillation.targets;
  PackedBatch batch = random_batch({7, 3, 1, 10}, config.vocabulary, student.token_embedding().right_rows(),
                                   1, 3, 0, config.scores_per_example(4));
  auto* counts = batch.counts.data<std::int32_t>();
  if (config.head == HeadKind::token_classification)
    for (std::int64_t i = 0; i < batch.masked_targets.elements(); ++i)
      batch.masked_targets.data<std::int32_t>()[i] %= static_cast<std::int32_t>(config.classes);
  if (pairs) {
    std::fill_n(batch.scores.data<float>(), batch.scores.elements(), 0.F);
    for (std::int32_t e = 0; e < 2; ++e) batch.labels.data<std::int32_t>()[e] = e;
    counts[4] = 2;
  }
  counts[5] = counts[4] * static_cast<std::int32_t>(config.scores_per_example(4));
  return batch;
}

// A student with its teacher, and a batch that both read. The plain backend in double, or the CPU's in
// float32.
struct Lesson {
  explicit Lesson(const Case& of, bool cpu = false)
      : compute(cpu ? DType::float32 : DType::float64),
        backend(cpu ? cpu_backend() : reference_backend()),
        harness(backend),
        student(student_config(of, compute), host_allocator(), true),
        taught(teacher_config(of, compute), host_allocator(), false),
        teacher(taught, of.pooling, of.learned, {backend, host_allocator()}, student.config().layers),
        batch(batch_for(student)) {
    student.parameters().initialize(11);
    taught.parameters().initialize(12);
    harness.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
    answers = teacher.answer(harness.context(), batch);
  }

  EncoderStep step(bool training = true) {
    return {
        {harness.context(), student.parameters(), harness.step_inputs(), harness.step_results(), training},
        batch,
        nullptr,
        &answers};
  }
  double loss() {
    harness.results() = StepResults{};
    student.run_micro_batch(step(), false);
    return harness.results().loss_sum;
  }

  DType compute;
  const Backend& backend;
  Harness harness;
  Model student, taught;
  Teacher teacher;
  PackedBatch batch;
  TeacherAnswers answers;
};

TEST(Distillation, GradientsAgreeWithCentralDifferences) {
  for (const Case& of : cases()) {
    SCOPED_TRACE(of.name);
    Lesson lesson(of);
    const double before = lesson.loss();
    EXPECT_GT(before, 0);
    lesson.student.run_micro_batch(lesson.step(), true);
    EXPECT_DOUBLE_EQ(lesson.harness.results().loss_sum, 2 * before);
    ParameterStore& store = lesson.student.parameters();
    for (const ParameterId id : store.layout())
      EXPECT_LT(finite_difference_error(store.value(id), store.gradient(id), [&] { return lesson.loss(); }),
                1e-6)
          << store.info(id).name;
  }
}

TEST(Distillation, CpuAgreesWithTheReference) {
  for (const Case& of : cases()) {
    SCOPED_TRACE(of.name);
    std::vector<std::vector<double>> gradients;
    std::vector<double> losses;
    for (const bool cpu : {false, true}) {
      Lesson lesson(of, cpu);
      lesson.student.run_micro_batch(lesson.step(), true);
      losses.push_back(lesson.harness.results().loss_sum);
      std::vector<double>& all = gradients.emplace_back();
      for (const ParameterId id : lesson.student.parameters().layout()) {
        const std::vector<double> one = read_tensor(lesson.student.parameters().gradient(id));
        all.insert(all.end(), one.begin(), one.end());
      }
    }
    EXPECT_NEAR(losses[0], losses[1], 1e-4 * losses[0]);
    EXPECT_LT(relative_error(gradients[1], gradients[0]), 3e-4);
  }
}

// The projection learns from every layer, and is announced when all are done.
TEST(Distillation, GradientsAreCompleteWhenAnnounced) {
  for (const Case& of : cases()) {
    SCOPED_TRACE(of.name);
    Lesson lesson(of);
    const ParameterStore& store = lesson.student.parameters();
    std::vector<double> announced(store.gradients().elements(), 0);
    std::vector<int> times(store.gradients().elements(), 0);
    lesson.student.on_gradients_ready([&](const std::vector<ParameterRange>& ranges) {
      for (const ParameterRange& range : ranges)
        for (std::int64_t i = range.begin; i < range.begin + range.count; ++i) {
          announced[i] = store.gradients().data<double>()[i];
          ++times[i];
        }
    });
    lesson.student.run_micro_batch(lesson.step(), true);
    EXPECT_EQ(announced, read_tensor(store.gradients()));
    for (const ParameterId id : store.layout())
      for (std::int64_t i = 0; i < store.info(id).shape.elements(); ++i)
        ASSERT_EQ(times[store.offset(id) + i], 1) << store.info(id).name;
  }
}

// Each micro-batch counts what its head would have learned from: sequences, masked tokens, examples.
TEST(Distillation, TargetsAreThoseOfTheHead) {
  for (const Case& of : cases()) {
    SCOPED_TRACE(of.name);
    Lesson lesson(of);
    lesson.loss();
    const auto* counts = lesson.batch.counts.data<std::int32_t>();
    const std::int32_t expected = of.head == HeadKind::multi_label                         ? counts[5]
                                  : reads_tokens(of.head)                                  ? counts[2]
                                  : of.learned.targets || of.head != HeadKind::contrastive ? counts[4]
                                                                                           : counts[1];
    EXPECT_EQ(lesson.harness.results().target_count, expected);
  }
}

// The loss of vectors by its definition, from those that the two models give themselves.
TEST(Distillation, LossOfVectorsIsThatOfItsDefinition) {
  for (const std::int64_t size : {0, 7}) {
    Case of{"", HeadKind::contrastive, {.vectors = 0.3, .similarities = 2, .targets = false}, false};
    of.size = of.taught_size = size;
    Lesson lesson(of);
    const std::int64_t width = size > 0 ? size : 12, sequences = lesson.batch.counts.data<std::int32_t>()[1];
    const auto vectors_of = [&](const Model& model) {
      const Buffer memory(host_allocator(), lesson.batch.capacity.sequences * width * sizeof(double),
                          MemoryKind::workspace);
      const Tensor vectors = memory.tensor({lesson.batch.capacity.sequences, width}, DType::float64);
      model.embed({{lesson.harness.context(), model.parameters(), lesson.harness.step_inputs(),
                    lesson.harness.step_results(), false},
                   lesson.batch},
                  Pooling::mean, vectors);
      return read_tensor(vectors);
    };
    const std::vector<double> u = vectors_of(lesson.student), v = vectors_of(lesson.taught);
    const auto cosine = [&](const std::vector<double>& a, std::int64_t i, const std::vector<double>& b,
                            std::int64_t j) {
      const auto dot = [&](const auto& x, std::int64_t r, const auto& y, std::int64_t s) {
        return std::inner_product(x.begin() + r * width, x.begin() + (r + 1) * width, y.begin() + s * width,
                                  0.0);
      };
      return dot(a, i, b, j) / std::sqrt(dot(a, i, a, i) * dot(b, j, b, j));
    };
    double expected = 0;
    for (std::int64_t i = 0; i < sequences; ++i) {
      expected += 0.3 * (1 - cosine(u, i, v, i));
      for (std::int64_t j = 0; j < sequences; ++j)
        expected += 2 * std::pow(cosine(u, i, u, j) - cosine(v, i, v, j), 2) / static_cast<double>(sequences);
    }
    lesson.harness.results() = StepResults{};
    lesson.student.run_micro_batch(lesson.step(false), false);
    EXPECT_NEAR(lesson.harness.results().loss_sum, expected, 1e-10);
  }
}

// What a teacher has prepared is what it computes without.
TEST(Distillation, PreparedAnswersAreTheSame) {
  for (const Case& of : cases()) {
    SCOPED_TRACE(of.name);
    Lesson lesson(of);
    MicroBatchCapacity larger = lesson.batch.capacity;
    larger.tokens += 8;
    for (const MicroBatchCapacity& capacity : {lesson.batch.capacity, larger}) {
      lesson.teacher.prepare(capacity);
      const TeacherAnswers prepared = lesson.teacher.answer(lesson.harness.context(), lesson.batch);
      for (const auto& [own, other] : {std::pair{lesson.answers.hidden, prepared.hidden},
                                       {lesson.answers.vectors, prepared.vectors},
                                       {lesson.answers.relations[0], prepared.relations[0]},
                                       {lesson.answers.relations[1], prepared.relations[1]},
                                       {lesson.answers.relations[2], prepared.relations[2]},
                                       {lesson.answers.logits, prepared.logits}}) {
        ASSERT_EQ(static_cast<bool>(own), static_cast<bool>(other));
        if (own) EXPECT_EQ(read_tensor(own), read_tensor(other));
      }
    }
  }
}

// A student of its own teacher's weights has nothing to learn from it.
TEST(Distillation, TheTeacherItselfHasNoLoss) {
  const Case of{"",
                HeadKind::mlm,
                {.hidden = 1, .all_layers = true, .relations = 1, .logits = 1, .targets = false},
                false};
  EncoderConfig config = small_config(false, HeadKind::mlm);
  config.distillation = of.learned;
  Model student(config, host_allocator(), true);
  student.parameters().initialize(11);
  Harness harness(reference_backend());
  const PackedBatch batch = random_batch({7, 3, 1, 10}, 29, student.token_embedding().right_rows());
  const Teacher teacher(student, Pooling::mean, of.learned, {reference_backend(), host_allocator()},
                        config.layers);
  const TeacherAnswers answers = teacher.answer(harness.context(), batch);
  student.run_micro_batch(
      {{harness.context(), student.parameters(), harness.step_inputs(), harness.step_results(), false},
       batch,
       nullptr,
       &answers},
      false);
  EXPECT_NEAR(harness.results().loss_sum, 0, 1e-12);
}

// Of a student with this configuration that learns relations alone: gradients, and what the head would count.
void expect_relations(EncoderConfig config, const EncoderConfig& of_teacher, bool has_loss) {
  config.distillation = {.relations = 1, .targets = false, .relation_heads = 2};
  Model student(config, host_allocator(), true), taught(of_teacher, host_allocator(), false);
  student.parameters().initialize(11);
  taught.parameters().initialize(12);
  Harness harness(reference_backend());
  const PackedBatch batch =
      random_batch({7, 3, 1, 10}, config.vocabulary, student.token_embedding().right_rows());
  const Teacher teacher(taught, Pooling::mean, config.distillation, {reference_backend(), host_allocator()});
  const TeacherAnswers answers = teacher.answer(harness.context(), batch);
  const EncoderStep step(
      {harness.context(), student.parameters(), harness.step_inputs(), harness.step_results(), true}, batch,
      nullptr, &answers);
  const auto loss = [&] {
    harness.results() = StepResults{};
    student.run_micro_batch(step, false);
    return harness.results().loss_sum;
  };
  EXPECT_EQ(loss() > 0, has_loss);
  EXPECT_EQ(harness.results().target_count, batch.counts.data<std::int32_t>()[1]);
  student.run_micro_batch(step, true);
  ParameterStore& store = student.parameters();
  for (const ParameterId id : store.layout())
    EXPECT_LT(finite_difference_error(store.value(id), store.gradient(id), loss), 1e-6)
        << store.info(id).name;
}

// Rotary positions turn queries and keys before they are compared.
TEST(Distillation, RelationsOfRotaryPositions) {
  EncoderConfig config = small_config(true, HeadKind::contrastive), wide = small_config(false);
  config.positions = wide.positions = Positions::rotary;
  expect_relations(config, wide, true);
}

TEST(Distillation, RelationsOfRemovedLayers) {
  for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre}) {
    expect_relations(removed_from_last(HeadKind::contrastive, norm), small_config(false), true);
    // The last attention is gone, and its relations with it.
    expect_relations(removed_config(HeadKind::contrastive, norm), small_config(false), false);
  }
}

}  // namespace
}  // namespace comera::test
