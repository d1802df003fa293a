#pragma once

#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/core/tensors/arena.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/shared/step_values.h"

// Shared by the benchmarks of single kernels, with the sizes of the six-encoder classifier.
namespace comera {

inline constexpr std::int64_t tokens = 4096, hidden = 768, heads = 12, inner = 3072, rank = 30,
                              sequences = 32;

// Tensors with random values, and a run that reuses its memory across iterations.
class Bench {
 public:
  Tensor tensor(Shape shape) {
    const Tensor t = make(shape, DType::float32);
    for (std::int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = uniform_(random_);
    return t;
  }
  Tensor tensor(Shape shape, DType dtype) {
    if (dtype == DType::float32) return tensor(shape);
    const Tensor wide = tensor(shape), narrow = make(shape, dtype);
    Arena arena(host_allocator(), {});
    run(Context{cpu_backend(), arena, {}}, Cast{.x = wide, .y = narrow});
    return narrow;
  }
  Tensor make(Shape shape, DType dtype) {
    buffers_.emplace_back(host_allocator(), static_cast<std::size_t>(shape.elements()) * size_of(dtype),
                          MemoryKind::activations);
    return buffers_.back().tensor(shape, dtype);
  }
  Tensor step_inputs() {
    const Tensor t = make({sizeof(StepInputs)}, DType::uint8);
    *static_cast<StepInputs*>(t.raw()) = StepInputs{};
    return t;
  }

  template <class Operation>
  void loop(benchmark::State& state, const Operation& operation) {
    Arena measuring = Arena::measuring(Device{});
    run(Context{cpu_backend(), measuring, {}}, operation);
    Arena arena(host_allocator(), measuring.peak());
    const Context context{cpu_backend(), arena, {}};
    run(context, operation);
    for (auto _ : state) run(context, operation);
  }

 private:
  std::vector<Buffer> buffers_;
  std::mt19937 random_{1};
  std::uniform_real_distribution<float> uniform_{-1, 1};
};

inline void flops(benchmark::State& state, double per_iteration) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}
inline void traffic(benchmark::State& state, double per_iteration) {
  state.counters["GB/s"] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

// Appends the argument's name to the kernel's.
template <class Function, class Argument>
void add_benchmark(const std::string& name, Function function, const Argument& argument) {
  benchmark::RegisterBenchmark((name + "/" + argument.name).c_str(),
                               [=](benchmark::State& state) { function(state, argument); })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

// Benchmarks of many sizes; those of one size are registered where they are written.
void add_product_benchmarks();
void add_linear_benchmarks();
void add_muon_benchmarks();

}  // namespace comera
