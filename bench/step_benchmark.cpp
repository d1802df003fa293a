#include "bench/step_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "data/batch.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/ceilings.h"
#include "kernels/core/profile.h"
#include "recipes/run/inference_engine.h"
#include "recipes/run/step_engine.h"

namespace comera {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string times_text(const std::vector<double>& seconds) {
  const auto [least, most] = std::ranges::minmax(seconds);
  return fmt::format("{:.0f} ms ({:.0f} to {:.0f})", median(seconds) * 1e3, least * 1e3, most * 1e3);
}

constexpr double mask_probability = 0.15;

data::BatchCapacity capacity_of(const StepBenchmarkOptions& options) {
  const EncoderConfig& config = options.config;
  data::BatchCapacity capacity =
      data::capacity_for(options.tokens, options.length, mask_probability, config.vocabulary);
  capacity.sequences = std::max<std::int64_t>(capacity.sequences, options.tokens / options.length);
  if (config.head != HeadKind::mlm) capacity.masked = 0;
  return capacity;
}

// Whole sequences of random tokens; the frequencies are Zipf's, as in text.
data::Batch random_batch(const StepBenchmarkOptions& options, const data::BatchCapacity& capacity,
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
  const std::int64_t sequences = options.tokens / options.length;
  for (std::int64_t s = 0; s < sequences; ++s) {
    std::vector<std::int32_t> ids(options.length), positions, targets;
    for (std::int64_t i = 0; i < options.length; ++i) {
      ids[i] = draw();
      if (config.head == HeadKind::mlm && uniform(engine) < mask_probability) {
        positions.push_back(static_cast<std::int32_t>(i));
        targets.push_back(draw());
      }
    }
    batch.add_sequence(ids.data(), nullptr, options.length, positions, targets,
                       static_cast<std::int32_t>(s % config.classes));
  }
  data::finish_batch(batch, right_rows);
  return batch;
}

// A model that takes steps.
class Stepper {
 public:
  Stepper(const EncoderConfig& config, const StepBenchmarkOptions& options)
      : engine_(config, AdamWOptions{}, backend_of(DeviceKind::cpu), host_allocator()) {
    engine_.model().parameters().initialize(1);
    const data::BatchCapacity capacity = capacity_of(options);
    engine_.set_capacity(pack_capacity(capacity));
    engine_.load(random_batch(options, capacity, engine_.model().token_embedding().right_rows()));
    targets_ = static_cast<double>(options.tokens) * mask_probability;
  }

  double step() {
    const auto start = Clock::now();
    engine_.clear_results();
    engine_.micro({.seed = 1, .step = static_cast<std::uint32_t>(update_), .pack = 0});
    const double rates[parameter_roles] = {1e-4, 1e-4, 1e-4};
    engine_.apply(update_++, targets_, rates, 1.0);
    return seconds_since(start);
  }

  double memory_mib() {
    const ParameterStore& store = engine_.model().parameters();
    return static_cast<double>(4 * store.values().bytes() + engine_.arena_plan().total) / 1048576;
  }

 private:
  StepEngine engine_;
  double targets_ = 1;
  std::int64_t update_ = 0;
};

// One encoder layer, forward and backward.
class LayerTimer {
 public:
  explicit LayerTimer(const StepBenchmarkOptions& options)
      : options_(options),
        block_(store_, options.config, 0),
        step_memory_(host_allocator(), step_bytes, MemoryKind::workspace) {
    store_.allocate(host_allocator(), options.config.compute, true);
    store_.initialize(1);
    const data::BatchCapacity capacity = capacity_of(options);
    batch_ = PackedBatch(host_allocator(), pack_capacity(capacity));
    const data::Batch host = random_batch(options, capacity, 0);
    std::ranges::copy(host.sequence_offsets, batch_.sequence_offsets.data<std::int32_t>());
    Arena measuring = Arena::measuring(Device{});
    run(measuring);
    arena_ = std::make_unique<Arena>(host_allocator(), measuring.peak());
  }

  double time() {
    const auto start = Clock::now();
    run(*arena_);
    return seconds_since(start);
  }

 private:
  static constexpr std::size_t step_bytes = sizeof(StepInputs) + sizeof(StepResults);

  void run(Arena& arena) {
    const Context context{backend_of(DeviceKind::cpu), arena, Stream{}};
    const Tensor values = step_memory_.tensor({step_bytes}, DType::uint8);
    const Step step{context,
                    store_,
                    batch_,
                    values.slice(0, {sizeof(StepInputs)}),
                    values.slice(sizeof(StepInputs), {sizeof(StepResults)}),
                    true};
    const std::size_t mark = arena.mark();
    const Shape shape{batch_.capacity.tokens, options_.config.hidden};
    const Tensor x = arena.saved(shape, store_.dtype()), g = arena.saved(shape, store_.dtype());
    if (!arena.is_measuring()) {
      for (std::int64_t i = 0; i < x.elements(); ++i) {
        x.data<float>()[i] = static_cast<float>(i % 17) / 8 - 1;
        g.data<float>()[i] = static_cast<float>(i % 13) / 6 - 1;
      }
    }
    const EncoderBlock::Saved saved = block_.forward(step, x);
    block_.backward(step, saved, g);
    arena.release(mark);
  }

  StepBenchmarkOptions options_;
  ParameterStore store_;
  EncoderBlock block_;
  Buffer step_memory_;
  PackedBatch batch_;
  std::unique_ptr<Arena> arena_;
};

// Seconds of all products of a dense step's encoder layers, by the system's matrix library.
double library_seconds(const StepBenchmarkOptions& options) {
  const EncoderConfig& c = options.config;
  const std::int64_t t = options.tokens;
  double seconds = 0;
  for (auto [n, m, count] : {std::tuple{c.hidden, c.hidden, 4}, {c.hidden, c.ffn, 1}, {c.ffn, c.hidden, 1}})
    seconds += count * (library_product_seconds(t, m, n, false, false, options.repeats) +
                        library_product_seconds(t, n, m, false, true, options.repeats) +
                        library_product_seconds(n, m, t, true, false, options.repeats));
  return seconds * static_cast<double>(c.layers);
}

double profiled_seconds(const std::string& name) {
  for (const ProfileEntry& entry : profile_entries())
    if (entry.name == name) return entry.seconds;
  return 0;
}

std::string profile_table(const std::string& title) {
  std::string text = title + "\n";
  double total = 0;
  for (const ProfileEntry& entry : profile_entries()) total += entry.seconds;
  for (const ProfileEntry& entry : profile_entries())
    text += fmt::format("  {:<34}{:>8}{:>10.1f} ms{:>8.1f} %\n", entry.name, entry.calls, entry.seconds * 1e3,
                        100 * entry.seconds / total);
  return text;
}

}  // namespace

std::string benchmark_step(const StepBenchmarkOptions& options) {
  options.config.validate();
  if (options.tokens % options.length != 0)
    throw UsageError(
        fmt::format("--tokens {} is not a multiple of --length {}; choose sequences that fill the tokens",
                    options.tokens, options.length));
  if (options.length > options.config.max_positions)
    throw UsageError(
        fmt::format("--length {} is longer than the model's max_positions = {}; choose a shorter one",
                    options.length, options.config.max_positions));
  const Ceilings ceilings = measure_ceilings();
  std::string text = fmt::format(
      "{} threads, instruction set {}; at best {:.0f} GFLOP/s fp32, {:.1f} GB/s copied (read and written)\n",
      thread_count(), instruction_set(), ceilings.fp32_flops * 1e-9, ceilings.copy_bytes * 1e-9);

  Stepper tensorized(options.config, options), dense(options.config.dense_twin(), options);
  std::vector<double> tensorized_seconds, dense_seconds;
  double dense_products = 0, library = 0;
  std::string profiles;
  tensorized.step();
  dense.step();
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    profile_reset();
    profile_enable(options.profile && repeat + 1 == options.repeats);
    tensorized_seconds.push_back(tensorized.step());
    if (options.profile && repeat + 1 == options.repeats)
      profiles += profile_table("where the last tensorized step's time goes");
    profile_reset();
    profile_enable(true);
    dense_seconds.push_back(dense.step());
    dense_products += profiled_seconds("MatrixProduct") / options.repeats;
    if (options.profile && repeat + 1 == options.repeats)
      profiles += profile_table("where the last dense step's time goes");
    profile_enable(false);
  }
  library = library_seconds(options);
  LayerTimer layer(options);
  layer.time();
  std::vector<double> layer_seconds;
  for (int repeat = 0; repeat < options.repeats; ++repeat) layer_seconds.push_back(layer.time());

  text += fmt::format(
      "whole step, {} tokens in sequences of {}, optimizer included; median of {} (least to most)\n",
      options.tokens, options.length, options.repeats);
  text += fmt::format("  tensorized   {:<32}{:>8.0f} MiB\n", times_text(tensorized_seconds),
                      tensorized.memory_mib());
  text += fmt::format("  dense        {:<32}{:>8.0f} MiB\n", times_text(dense_seconds), dense.memory_mib());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < dense_seconds.size(); ++i)
    ratios.push_back(dense_seconds[i] / tensorized_seconds[i]);
  text += fmt::format(
      "  tensorized is {:.2f} times faster (median of the pairs) and takes {:.2f} times less memory\n",
      median(ratios), dense.memory_mib() / tensorized.memory_mib());
  text += fmt::format(
      "  the dense step's products take {:.0f} ms; the matrix library alone needs {:.0f} ms for its "
      "encoder's: {:.0f} %\n",
      dense_products * 1e3, library * 1e3, 100 * library / dense_products);
  text += fmt::format("one tensorized encoder layer, forward and backward: {}\n", times_text(layer_seconds));
  return text + profiles;
}

}  // namespace comera
