#include <cstring>

#include "bench/kernels/bench.h"
#include "kernels/ops/optimizers/muon.h"
#include "kernels/ops/optimizers/optimizer.h"

namespace comera {

namespace {

void adamw(benchmark::State& state) {
  Bench bench;
  constexpr std::int64_t parameters = 1'500'000;
  AdamW op;
  op.parameters = bench.tensor({parameters}), op.gradients = bench.tensor({parameters});
  op.moment1 = bench.tensor({parameters}), op.moment2 = bench.make({parameters}, DType::float32);
  op.segments = bench.make({sizeof(ParameterSegment)}, DType::uint8), op.segment_count = 1,
  op.elements = parameters;
  *static_cast<ParameterSegment*>(op.segments.raw()) = {0, parameters, 0, 1};
  op.step_inputs = bench.step_inputs();
  op.results = bench.make({sizeof(StepResults)}, DType::uint8);
  bench.loop(state, op);
  traffic(state, 7.0 * op.parameters.bytes());
}
BENCHMARK(adamw)->Unit(benchmark::kMillisecond)->UseRealTime();

// As in `layers` linear layers: cores of tensor trains, or dense matrices.
struct MuonCase {
  const char* name;
  std::int32_t count, rows, columns;
};
const MuonCase muon_cases[] = {
    {"cores_256x32", 100, 256, 32}, {"cores_1024x64", 100, 1024, 64}, {"dense_256x1024", 8, 256, 1024}};

void muon(benchmark::State& state, const MuonCase& c) {
  Bench bench;
  const std::int64_t each = std::int64_t{c.rows} * c.columns;
  Muon op;
  std::vector<MuonMatrix> matrices;
  for (std::int32_t i = 0; i < c.count; ++i) {
    MuonMatrix matrix{.offset = i * each, .rows = c.rows, .columns = c.columns};
    op.sizes.append(matrix);
    matrices.push_back(matrix);
  }
  op.parameters = bench.tensor({c.count * each}), op.gradients = bench.tensor({c.count * each});
  op.momentum = bench.tensor({c.count * each});
  op.matrices = bench.make({static_cast<std::int64_t>(matrices.size() * sizeof(MuonMatrix))}, DType::uint8);
  std::memcpy(op.matrices.raw(), matrices.data(), op.matrices.bytes());
  op.step_inputs = bench.step_inputs();
  op.results = bench.make({sizeof(StepResults)}, DType::uint8);
  static_cast<StepResults*>(op.results.raw())->gradient_scale = 1;
  bench.loop(state, op);
  traffic(state, 5.0 * op.parameters.bytes());
}

}  // namespace

void add_muon_benchmarks() {
  for (const MuonCase& c : muon_cases) add_benchmark("Muon", muon, c);
}

}  // namespace comera
