#include "measurements/step_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/matrix_product.h"
#include "measurements/step_profile.h"
#include "measurements/stepper.h"

namespace comera {

namespace {

std::string median_text(const std::vector<double>& seconds) {
  const auto [least, most] = std::ranges::minmax(seconds);
  return fmt::format("{:.0f} ms ({:.0f} to {:.0f})", median(seconds) * 1e3, least * 1e3, most * 1e3);
}

// One encoder layer, forward and backward.
class LayerTimer {
 public:
  explicit LayerTimer(const StepBenchmarkOptions& options)
      : options_(options),
        positions_(store_, options.config, host_allocator()),
        block_(store_, options.config, positions_, 0),
        step_memory_(host_allocator(), step_bytes, MemoryKind::workspace) {
    store_.allocate(host_allocator(), options.config.compute, true);
    store_.initialize(1);
    const MicroBatchCapacity capacity = capacity_of(options);
    batch_ = PackedBatch(host_allocator(), capacity);
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
    const EncoderStep step({.context = context,
                            .store = store_,
                            .inputs = values.slice(0, {sizeof(StepInputs)}),
                            .results = values.slice(sizeof(StepInputs), {sizeof(StepResults)})},
                           batch_);
    positions_.make(context);
    const std::size_t mark = arena.mark();
    const Shape shape{batch_.capacity.tokens, options_.config.hidden};
    const Tensor x = arena.saved(shape, store_.dtype()), g = arena.saved(shape, store_.dtype());
    if (!arena.is_measuring()) {
      for (std::int64_t i = 0; i < x.elements(); ++i) {
        x.data<float>()[i] = static_cast<float>(i % 17) / 8 - 1;
        g.data<float>()[i] = static_cast<float>(i % 13) / 6 - 1;
      }
    }
    EncoderBlock::Merged merged;
    const Merging merging = merge_together(context, store_.compute(),
                                           [&](Merging& all) { merged = block_.merge(step, nullptr, all); });
    const EncoderBlock::Saved saved = block_.forward(step, merged, x, nullptr);
    ArenaScope scope(arena);
    MergedGradients gradients(context, scope, merging, 0);
    block_.backward(step, saved, g, g, nullptr, gradients);
    gradients.flush();
    arena.release(mark);
  }

  StepBenchmarkOptions options_;
  ParameterStore store_;
  PositionTables positions_;
  EncoderBlock block_;
  Buffer step_memory_;
  PackedBatch batch_;
  std::unique_ptr<Arena> arena_;
};

// The time of all products of a dense step's encoder layers with the system's matrix library, in seconds.
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

// Runs steps in turn; keeps the profile of the fastest one.
class ProfiledSteps {
 public:
  explicit ProfiledSteps(const EncoderConfig& config, const StepBenchmarkOptions& options)
      : stepper_(config, options, cpu_processor()) {
    stepper_.step();
  }

  void step() {
    const StepProfile profile = profiled_step(stepper_);
    seconds_.push_back(profile.seconds);
    products_ += seconds_in(profile, "MatrixProduct");
    if (quickest_.entries.empty() || profile.seconds < quickest_.seconds) quickest_ = profile;
  }

  const std::vector<double>& seconds() const { return seconds_; }
  double mean_product_seconds() const { return products_ / static_cast<double>(seconds_.size()); }
  const StepProfile& quickest() const { return quickest_; }
  double memory_mib() { return stepper_.memory_mib(); }

 private:
  Stepper stepper_;
  std::vector<double> seconds_;
  double products_ = 0;
  StepProfile quickest_;
};

std::string compare(ProfiledSteps& tensorized, ProfiledSteps& dense, const StepBenchmarkOptions& options) {
  std::string text =
      fmt::format("  dense        {:<32}{:>8.0f} MiB\n", median_text(dense.seconds()), dense.memory_mib());
  text += fmt::format(
      "  tensorized is {:.2f} times faster (median of the pairs) and takes {:.2f} times less memory\n",
      median_ratio(dense.seconds(), tensorized.seconds()), dense.memory_mib() / tensorized.memory_mib());
  if (options.config.compute != DType::float32) return text;  // the rest is about the library's sgemm
  const double products = dense.mean_product_seconds(), library = library_seconds(options);
  text += fmt::format(
      "  the dense step's products take {:.0f} ms; the matrix library alone needs {:.0f} ms for its "
      "encoder's: {:.0f} %\n",
      products * 1e3, library * 1e3, 100 * library / products);
  LayerTimer layer(options);
  layer.time();
  std::vector<double> seconds;
  for (int repeat = 0; repeat < options.repeats; ++repeat) seconds.push_back(layer.time());
  return text + fmt::format("one tensorized encoder layer, forward and backward: {}\n", median_text(seconds));
}

// Peak bandwidth in bytes per second: y += x over much memory.
double gpu_bandwidth(const Processor& processor) {
  constexpr std::int64_t elements = 64 << 20;
  Allocator& allocator = processor.allocator;
  const Buffer x(allocator, elements * sizeof(float), MemoryKind::workspace),
      y(allocator, elements * sizeof(float), MemoryKind::workspace);
  Arena arena(allocator, {});
  const Context context{processor.backend, arena, allocator.stream()};
  double best = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    constexpr int times = 4;
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i)
      run(context, Add{.x = x.tensor({elements}, DType::float32), .y = y.tensor({elements}, DType::float32)});
    allocator.synchronize(allocator.stream());
    best = std::max(best, times * 3.0 * static_cast<double>(x.bytes()) / seconds_since(start));
  }
  return best;
}

// Peak floating-point operations per second, from a large product in this type.
double gpu_product_rate(const Processor& processor, DType type) {
  constexpr std::int64_t size = 8192;
  Allocator& allocator = processor.allocator;
  const std::size_t bytes = size * size * size_of(type);
  const Buffer a(allocator, bytes, MemoryKind::workspace), b(allocator, bytes, MemoryKind::workspace),
      c(allocator, bytes, MemoryKind::workspace);
  const Shape shape{size, size};
  for (const Buffer* filled : {&a, &b}) {  // products of zeros are faster than others
    HostCopy values(allocator, filled->tensor(shape, type));
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < bytes; i += 2) {
      state = state * 1664525u + 1013904223u;
      // The upper half of a number between 1 and 2, with random sign; for a float32, its lower half.
      const auto word = static_cast<std::uint16_t>((state >> 16 & 0x807fu) | 0x3f80u);
      std::memcpy(static_cast<std::byte*>(values.tensor().raw()) + i, &word, sizeof word);
    }
    values.write();
  }
  const MatrixProduct product{.a = a.tensor(shape, type),
                              .b = b.tensor(shape, type),
                              .c = c.tensor(shape, type),
                              .m = size,
                              .n = size,
                              .k = size};
  Arena measuring = Arena::measuring(allocator.device());
  run(Context{processor.backend, measuring, allocator.stream()}, product);
  Arena arena(allocator, measuring.peak());
  double best = 0;
  for (int repeat = 0; repeat < 10; ++repeat) {
    const auto start = Clock::now();
    run(Context{processor.backend, arena, allocator.stream()}, product);
    allocator.synchronize(allocator.stream());
    best = std::max(best, 2.0 * size * size * size / seconds_since(start));
  }
  return best;
}

// Where the time of an unrecorded step goes: the fastest of five.
std::string gpu_profile(const char* name, const EncoderConfig& config, const StepBenchmarkOptions& options,
                        Processor processor, const Ceilings& ceilings) {
  processor.graphs = false;
  Stepper stepper(config, options, processor);
  for (int i = 0; i < 2; ++i) stepper.step();
  StepProfile quickest;
  for (int i = 0; i < 5; ++i) {
    const auto clock = processor.allocator.profile_clock(processor.allocator.stream());
    const StepProfile profile = profiled_step(stepper, clock.get());
    if (i == 0 || profile.seconds < quickest.seconds) quickest = profile;
  }
  return device_roofline_table(
      fmt::format("the quickest {} step, operation by operation, without graphs", name), quickest, ceilings);
}

// A model's steps on a GPU, with their memory traffic and products.
struct GpuSteps {
  GpuSteps(const EncoderConfig& config, const StepBenchmarkOptions& options, const Processor& processor)
      : stepper(config, options, processor) {
    profile_reset();
    Profiling profiling;  // the first step runs every operation once
    stepper.step();
    profiling.finish();
    for (const ProfileEntry& entry : profile_entries()) work += entry.work;
    stepper.step();
  }
  void step() {
    constexpr int together = 10;
    double sum = 0;
    for (int i = 0; i < together; ++i) sum += stepper.step();
    seconds.push_back(sum / together);
  }
  std::string text(const char* name, double bandwidth) {
    const double bytes = work.bytes / bandwidth;
    return fmt::format(
        "  {:<12} {:.3f} ms ({:.3f} to {:.3f}); its {:.2f} GB need {:.3f} ms at that rate: {:.2f} times; "
        "{:.2f} "
        "TFLOP/s; {:.0f} MiB\n",
        name, median(seconds) * 1e3, *std::ranges::min_element(seconds) * 1e3,
        *std::ranges::max_element(seconds) * 1e3, work.bytes * 1e-9, bytes * 1e3, median(seconds) / bytes,
        work.flops / median(seconds) * 1e-12, stepper.memory_mib());
  }

  Stepper stepper;
  Work work;
  std::vector<double> seconds;  // per step, each the mean of ten
};

std::string compute_text(const EncoderConfig& config) {
  return config.float8 ? fmt::format("fp8 ({} scales) beside {}", name_of(config.float8->scaling),
                                     name_of(config.compute))
                       : name_of(config.compute);
}

std::string benchmark_on_gpu(const StepBenchmarkOptions& options, const Processor& processor) {
  const double bandwidth = gpu_bandwidth(processor);
  std::optional<GpuSteps> tensorized(std::in_place, options.config, options, processor);
  std::optional<GpuSteps> dense;
  if (!options.only_tensorized) dense.emplace(options.config.dense_baseline(), options, processor);
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    tensorized->step();
    if (dense) dense->step();
  }
  std::string text =
      fmt::format("{}, {}, graphs {}; at best {:.0f} GB/s moved\n", processor.backend.name(),
                  compute_text(options.config), processor.graphs ? "on" : "off", bandwidth * 1e-9);
  text += fmt::format(
      "whole step, {} tokens in sequences of {}, {} included; median of {} times ten (least to "
      "most)\n",
      options.tokens, options.length, name_of(options.optimizer.kind), options.repeats);
  text += tensorized->text("tensorized", bandwidth);
  if (dense)
    text += dense->text("dense", bandwidth) +
            fmt::format(
                "  tensorized is {:.2f} times faster (median of the pairs) and takes {:.2f} times less "
                "memory\n",
                median_ratio(dense->seconds, tensorized->seconds),
                dense->stepper.memory_mib() / tensorized->stepper.memory_mib());
  if (!options.profile) return text;
  const bool with_dense = dense.has_value();
  dense.reset();
  tensorized.reset();
  const Ceilings ceilings{.product_flops = gpu_product_rate(processor, options.config.compute),
                          .copy_bytes = bandwidth};
  text += fmt::format("  at best {:.0f} TFLOP/s of products in {}\n", ceilings.product_flops * 1e-12,
                      name_of(options.config.compute));
  text += gpu_profile("tensorized", options.config, options, processor, ceilings);
  if (with_dense) text += gpu_profile("dense", options.config.dense_baseline(), options, processor, ceilings);
  return text;
}

}  // namespace

std::string benchmark_step(const StepBenchmarkOptions& options) {
  options.config.validate();
  check_lengths(options);
  Processor processor = find_processor(options.device, options.config.compute, options.operands);
  processor.graphs = options.graphs;
  if (processor.allocator.device().kind == DeviceKind::cuda) {
    return benchmark_on_gpu(options, processor);
  }
  if (options.config.compute == DType::float64)
    throw UsageError("bench step measures optimised kernels; set precision.compute to \"fp32\" or \"bf16\"");
  const Ceilings before = measure_ceilings();

  ProfiledSteps tensorized(options.config, options);
  std::optional<ProfiledSteps> dense;
  if (!options.only_tensorized) dense.emplace(options.config.dense_baseline(), options);
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    tensorized.step();
    if (dense) dense->step();
  }
  const Ceilings ceilings = best_of(before, measure_ceilings());
  const char* emulated = options.config.float8 ? " (8 bits are emulated on a CPU)" : "";
  std::string text = fmt::format(
      "{}{}, {} threads, instruction set {}; at best {:.0f} GFLOP/s fp32, {:.1f} GB/s copied (read and "
      "written)\n",
      compute_text(options.config), emulated, thread_count(), instruction_set(),
      ceilings.product_flops * 1e-9, ceilings.copy_bytes * 1e-9);
  text += fmt::format("whole step, {} tokens in sequences of {}, {} included; median of {} (least to most)\n",
                      options.tokens, options.length, name_of(options.optimizer.kind), options.repeats);
  text += fmt::format("  tensorized   {:<32}{:>8.0f} MiB\n", median_text(tensorized.seconds()),
                      tensorized.memory_mib());
  if (dense) text += compare(tensorized, *dense, options);
  if (options.profile) {
    text += roofline_table("the quickest tensorized step, operation by operation", tensorized.quickest(),
                           ceilings);
    if (dense)
      text += roofline_table("the quickest dense step, operation by operation", dense->quickest(), ceilings);
  }
  return text;
}

}  // namespace comera
