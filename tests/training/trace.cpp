#include "tests/training/trace.h"

#include <algorithm>

#include "data/batching/batch.h"
#include "data/vectors/contrastive_samples.h"
#include "model/encoder_micro_batches.h"
#include "tensorized/linear/lte_linear.h"
#include "tests/support/harness.h"
#include "training/step/step_engine.h"

namespace comera::test {

namespace {

MicroBatchCapacity trace_capacity(const EncoderConfig& config) {
  MicroBatchCapacity capacity{.tokens = 48, .sequences = 8, .longest = 16, .masked = 24, .unique_ids = 29};
  make_room_for_targets(config.head, capacity);
  if (config.head == HeadKind::contrastive) capacity.scores = config.scores_per_example(capacity.sequences);
  return capacity;
}

bool learns_pairs(const EncoderConfig& config) {
  return config.head == HeadKind::contrastive && (!config.distillation.any() || config.distillation.targets);
}

// A dense teacher of other weights for a student, or none.
struct TraceTeacher {
  TraceTeacher(const EncoderConfig& student, const Processor& processor) {
    if (!student.distillation.any()) return;
    EncoderConfig config = student.dense_baseline();
    config.distillation = {};
    config.layers += 1;
    if (student.distillation.width > 0) config.hidden = student.distillation.width;
    model = std::make_unique<Model>(config, processor.allocator, false);
    model->parameters().initialize(3);
    teacher =
        std::make_unique<Teacher>(*model, config.pooling, student.distillation, processor, student.layers);
  }
  std::unique_ptr<Model> model;
  std::unique_ptr<Teacher> teacher;
};

// They begin at zero, where no score shows whether a backend adds them, and are not trained.
void bias_by_distance(const Model& model) {
  const ParameterStore& store = model.parameters();
  if (const auto id = store.find("embedding.relative_bias"))
    write_tensor(store.value(*id), normal_values(store.value(*id).elements(), 7), store.allocator());
}

// Batches that depend on nothing but these lines.
data::Batch trace_batch(const Model& model, int step) {
  const EncoderConfig& config = model.config();
  data::Batch batch(trace_capacity(config));
  std::uint32_t state = 12345 + 77 * step;
  const auto next = [&state] { return (state = state * 1664525u + 1013904223u) >> 16; };
  for (int length : {16, 5, 1, 11}) {
    std::vector<std::int32_t> ids, positions, targets;
    for (int i = 0; i < length; ++i) {
      ids.push_back(static_cast<std::int32_t>(next() % 29));
      if (i % 4 == 1 || length == 1) {
        positions.push_back(i);
        targets.push_back(static_cast<std::int32_t>((ids.back() * 7 + 3) % 29));  // something to learn
        if (config.head == HeadKind::token_classification) targets.back() %= config.classes;
      }
    }
    if (config.head == HeadKind::question_answering)
      positions = targets = {length / 3, std::min(length / 3 + 2, length - 1)};
    batch.add_sequence(ids.data(), nullptr, length, positions, targets, length % 2);
  }
  if (learns_pairs(config)) {  // two of them
    batch.examples = 2;
    std::ranges::fill(batch.scores, data::no_candidate);
    const std::int64_t documents = trace_capacity(config).scores;
    for (std::int32_t e = 0; e < batch.examples; ++e) {
      batch.labels[static_cast<std::size_t>(e)] = e;
      std::fill_n(batch.scores.begin() + e * documents, batch.examples, 0.F);
    }
  }
  data::finish_batch(batch, model.token_embedding().right_rows());
  return batch;
}

}  // namespace

std::vector<double> trace(EncoderConfig config, const Processor& processor, int steps,
                          const OptimizerOptions& optimizer) {
  config.dropout = config.attention_dropout = 0.1;
  Model model(config, processor.allocator, true);
  model.parameters().initialize(2);
  bias_by_distance(model);
  StepEngine engine(model, optimizer, processor);
  const TraceTeacher taught(config, processor);
  engine.set_micro_batches(EncoderMicroBatches(model, trace_capacity(config), taught.teacher.get()));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    engine.clear_results();
    double targets = 0;
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      const data::Batch batch = trace_batch(model, 2 * step + micro_batch);
      engine.load(batch.block());
      engine.micro({.seed = 9,
                    .step = static_cast<std::uint32_t>(step),
                    .micro_batch = static_cast<std::uint32_t>(micro_batch)});
      targets += config.head == HeadKind::contrastive ? batch.examples : batch.masked;
    }
    const StepRates rates({.cores = 2e-2, .gates = 1e-2, .other = 1e-2});
    engine.apply(step, targets, rates, 1.0);
    if (config.lte && step % 3 == 2) engine.consolidate();
    losses.push_back(engine.results().loss_sum / engine.results().target_count);
  }
  return losses;
}

std::map<std::string, std::vector<double>> gradients(EncoderConfig config, const Processor& processor,
                                                     const Announced& announced) {
  config.dropout = config.attention_dropout = 0;
  Model model(config, processor.allocator, true);
  ParameterStore& store = model.parameters();
  StepEngine engine(model, {}, processor);
  store.initialize(2);
  // Adapters begin with zeros, beside which others have no gradient.
  for (const ParameterId id : store.layout())
    if (LteLinear::is_adapter(store.info(id).name)) {
      std::vector<double> values = normal_values(store.value(id).elements(), id);
      for (double& value : values) value *= 0.2;
      write_tensor(store.value(id), values, processor.allocator);
    }
  engine.set_micro_batches(EncoderMicroBatches(model, trace_capacity(config)));
  engine.clear_results();
  engine.load(trace_batch(model, 1).block());
  if (announced)
    model.on_gradients_ready([&](const std::vector<ParameterRange>& ranges) { announced(store, ranges); });
  engine.micro({.seed = 9, .step = 0, .micro_batch = 0});
  engine.results();  // waits
  std::map<std::string, std::vector<double>> all;
  for (const ParameterId id : store.layout())
    all[store.info(id).name] = read_tensor(store.gradient(id), processor.allocator);
  return all;
}

}  // namespace comera::test
