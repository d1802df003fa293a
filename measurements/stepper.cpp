#include "measurements/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "model/encoder_micro_batches.h"

namespace comera {

MemoryByKind memory_in_use(const Allocator& allocator) {
  MemoryByKind bytes{};
  for (int kind = 0; kind < memory_kinds; ++kind)
    bytes[kind] = allocator.use(static_cast<MemoryKind>(kind)).current;
  return bytes;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(ratios);
}

void check_lengths(const StepBenchmarkOptions& options) {
  if (options.tokens % options.length != 0)
    throw UsageError(
        fmt::format("--tokens {} is not a multiple of --length {}; choose sequences that fill the tokens",
                    options.tokens, options.length));
  if (options.length > options.config.max_positions)
    throw UsageError(
        fmt::format("--length {} is longer than the model's max_positions = {}; choose a shorter one",
                    options.length, options.config.max_positions));
}

MicroBatchCapacity capacity_of(const StepBenchmarkOptions& options) {
  const EncoderConfig& config = options.config;
  MicroBatchCapacity capacity =
      data::capacity_for(options.tokens, options.length, options.mask_probability, config.vocabulary);
  capacity.sequences =
      std::max({capacity.sequences, options.tokens / options.length, options.held_sequences});
  if (!is_pretraining(config.head)) capacity.masked = 0;
  make_room_for_targets(config.head, capacity);
  capacity.scores = config.scores_per_example(capacity.sequences);
  return capacity;
}

data::Batch random_batch(const StepBenchmarkOptions& options, const MicroBatchCapacity& capacity,
                         std::int64_t right_rows) {
  const EncoderConfig& config = options.config;
  data::Batch batch(capacity);
  std::mt19937_64 engine(1);
  std::uniform_real_distribution<double> uniform;
  const auto draw = [&] {
    const double rank = std::pow(static_cast<double>(config.vocabulary), uniform(engine)) - 1;
    return std::min<std::int32_t>(static_cast<std::int32_t>(rank),
                                  static_cast<std::int32_t>(config.vocabulary) - 1);
  };
  const bool full = options.held_sequences == 0;
  const std::int64_t length = full ? options.length : options.held_length;
  const std::int64_t sequences = full ? options.tokens / length : options.held_sequences;
  for (std::int64_t s = 0; s < sequences; ++s) {
    std::vector<std::int32_t> ids(length), positions, targets;
    for (std::int64_t i = 0; i < length; ++i) {
      ids[i] = draw();
      if (is_pretraining(config.head) && uniform(engine) < options.mask_probability) {
        positions.push_back(static_cast<std::int32_t>(i));
        targets.push_back(draw());
      } else if (config.head == HeadKind::token_classification) {
        positions.push_back(static_cast<std::int32_t>(i));
        targets.push_back(static_cast<std::int32_t>(i % config.classes));
      }
    }
    if (config.head == HeadKind::question_answering) positions = targets = {0, 1};
    batch.add_sequence(ids.data(), nullptr, length, positions, targets,
                       static_cast<std::int32_t>(s % config.classes));
  }
  if (!full) batch.examples = static_cast<std::int32_t>(options.held_examples);
  data::finish_batch(batch, right_rows);
  return batch;
}

Stepper::Stepper(const EncoderConfig& config, const StepBenchmarkOptions& options, const Processor& processor)
    : allocator_(processor.allocator),
      before_(memory_in_use(allocator_)),
      model_(config, processor.allocator, true),
      engine_(model_, options.optimizer, processor) {
  if (options.initialize) model_.parameters().initialize(1);
  set_batch(options);
}

void Stepper::set_batch(const StepBenchmarkOptions& options) {
  const MicroBatchCapacity capacity = capacity_of(options);
  engine_.set_micro_batches(EncoderMicroBatches(model_, capacity, options.teacher));
  engine_.load(random_batch(options, capacity, model_.token_embedding().right_rows()).block());
  targets_ = static_cast<double>(options.tokens) * options.mask_probability;
}

void Stepper::adapt_ranks(const RankStageOptions& stage) {
  engine_.adapt_ranks(measure_rank_units(model_.parameters(), model_.ranked_layers()), stage, {});
}

void Stepper::micro() {
  engine_.clear_results();
  engine_.micro({.seed = 1, .step = static_cast<std::uint32_t>(update_), .micro_batch = 0});
}

double Stepper::micro_batch() {
  const auto start = Clock::now();
  micro();
  engine_.results();
  return seconds_since(start);
}

double Stepper::step() {
  const auto start = Clock::now();
  micro();
  apply();
  return seconds_since(start);
}

void Stepper::apply() {
  engine_.apply(update_++, targets_, StepRates(LearningRates::all(1e-4)), 1.0);
  engine_.results();  // waits for a device that works by itself
}

double Stepper::refresh() {
  micro_batch();
  const auto start = Clock::now();
  engine_.refresh_optimizer(0);
  const double seconds = seconds_since(start);
  apply();
  return seconds;
}

double Stepper::merge() {
  const auto start = Clock::now();
  engine_.consolidate();
  engine_.allocator().synchronize(engine_.allocator().stream());
  return seconds_since(start);
}

MemoryByKind Stepper::memory() const {
  MemoryByKind bytes = memory_in_use(allocator_);
  for (int kind = 0; kind < memory_kinds; ++kind) bytes[kind] -= before_[kind];
  const std::size_t scratch = arena_plan().total - arena_plan().saved;
  bytes[static_cast<int>(MemoryKind::activations)] -= scratch;
  bytes[static_cast<int>(MemoryKind::workspace)] += scratch;
  return bytes;
}

double Stepper::memory_mib() {
  const ParameterStore& store = model_.parameters();
  std::size_t kept = 0;
  for (const ParameterState& state : engine_.states()) kept += state.values.bytes();
  const std::size_t rounded = store.compute() == store.dtype() ? 0 : store.product_values().bytes();
  return static_cast<double>(store.all_values().bytes() + store.gradients().bytes() + kept + rounded +
                             engine_.arena_plan().total) /
         1048576;
}

OccasionalWork occasional_work(Stepper& stepper, const Recipe& recipe) {
  OccasionalWork work;
  if (recipe.optim.kind == OptimizerKind::galore) {
    work.name = "finding subspaces";
    work.steps = recipe.optim.galore.value_or(GaloreOptions()).update_proj_gap;
    work.seconds = stepper.refresh();
  } else if (recipe.lte) {
    work.name = "merging";
    work.steps = recipe.lte->merge_steps;
    stepper.merge();  // memory is touched for the first time
    work.seconds = stepper.merge();
  }
  return work;
}

std::vector<double> step_times(Stepper& stepper) {
  stepper.step();  // memory is touched for the first time
  std::vector<double> seconds = {stepper.step()};
  while (std::ssize(seconds) < 5 && std::reduce(seconds.begin(), seconds.end()) < 1)
    seconds.push_back(stepper.step());
  return seconds;
}

}  // namespace comera
