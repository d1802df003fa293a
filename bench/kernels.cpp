// The hot operations of the six-encoder classifier (hidden 768, 12 heads, feed-forward 3072, rank 30, 32
// sequences of 128 tokens), next to what the machine can do: oneDNN's own threading of plain products, and
// the bandwidth of a copy.
//
//   comera_bench_kernels --benchmark_filter=TTLinear
#include <benchmark/benchmark.h>
#include <dnnl.h>
#include <omp.h>

#include <cstring>
#include <random>

#include "kernels/core/arena.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/threads.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/bias_activation.h"
#include "kernels/ops/bias_dropout_residual_norm.h"
#include "kernels/ops/context.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/layout.h"
#include "kernels/ops/matrix_product.h"
#include "kernels/ops/muon.h"
#include "kernels/ops/optimizer.h"
#include "kernels/ops/tt_feed_forward.h"
#include "kernels/ops/tt_linear.h"

namespace comera {

namespace {
constexpr std::int64_t tokens = 4096, hidden = 768, heads = 12, inner = 3072, rank = 30, sequences = 32;

// Tensors with random values, and a run that keeps its memory from one iteration to the next.
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

void flops(benchmark::State& state, double per_iteration) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}
void traffic(benchmark::State& state, double per_iteration) {
  state.counters["GB/s"] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

struct Size {
  const char* name;
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
};
const Size sizes[] = {
    {"NN_4096x768x768", false, false, 4096, 768, 768},  {"NN_4096x3072x768", false, false, 4096, 3072, 768},
    {"NT_4096x768x3072", false, true, 4096, 768, 3072}, {"TN_768x3072x4096", true, false, 768, 3072, 4096},
    {"NN_4096x30x768", false, false, 4096, 30, 768},    {"NN_4096x768x30", false, false, 4096, 768, 30},
    {"TN_768x30x4096", true, false, 768, 30, 4096},     {"TN_30x768x4096", true, false, 30, 768, 4096},
    {"NT_4096x30x768", false, true, 4096, 30, 768},     {"NN_512x768x768", false, false, 512, 768, 768},
    {"NN_12x1920x12", false, false, 12, 1920, 12},      {"NN_360x96x30", false, false, 360, 96, 30},
};

void raw_sgemm(benchmark::State& state, const Size& s) {
  Bench bench;
  const Tensor a = bench.tensor({s.m, s.k}), b = bench.tensor({s.k, s.n}), c = bench.tensor({s.m, s.n});
  for (auto _ : state) {
    dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1, a.data<float>(),
               s.transpose_a ? s.m : s.k, b.data<float>(), s.transpose_b ? s.k : s.n, 0, c.data<float>(),
               s.n);
  }
  flops(state, 2.0 * s.m * s.n * s.k);
}

template <DType type>
void matrix_product(benchmark::State& state, const Size& s) {
  Bench bench;
  MatrixProduct op;
  op.a = bench.tensor({s.m, s.k}, type), op.b = bench.tensor({s.k, s.n}, type);
  op.c = bench.tensor({s.m, s.n}, type);
  op.m = s.m, op.n = s.n, op.k = s.k, op.transpose_a = s.transpose_a, op.transpose_b = s.transpose_b;
  bench.loop(state, op);
  flops(state, 2.0 * s.m * s.n * s.k);
}

void copy_bandwidth(benchmark::State& state) {
  Bench bench;
  const Tensor x = bench.tensor({tokens, inner}), y = bench.tensor({tokens, inner});
  for (auto _ : state) {
#pragma omp parallel for
    for (std::int64_t i = 0; i < tokens; ++i) {
      std::memcpy(y.data<float>() + i * inner, x.data<float>() + i * inner, inner * sizeof(float));
    }
  }
  traffic(state, 2.0 * x.bytes());
}
BENCHMARK(copy_bandwidth)->Unit(benchmark::kMillisecond)->UseRealTime();

// The linears of a layer: outputs of one input.
struct Linear {
  const char* name;
  std::int64_t inputs, width;
  int outputs;
  Activation activation;
};
const Linear linears[] = {{"qkv", hidden, hidden, 3, Activation::none},
                          {"attention_out", hidden, hidden, 1, Activation::none},
                          {"up_gelu", hidden, inner, 1, Activation::gelu},
                          {"down", inner, hidden, 1, Activation::none}};

double linear_flops(const Linear& l) {
  return 2.0 * tokens * rank * l.outputs * static_cast<double>(l.inputs + l.width);
}

void tt_linear_forward(benchmark::State& state, const Linear& l) {
  Bench bench;
  TTLinearForward op;
  const std::int64_t all = rank * l.outputs;
  op.x = bench.tensor({tokens, l.inputs}), op.a = bench.tensor({l.inputs, all});
  op.xa = bench.tensor({tokens, all}), op.outputs = l.outputs;
  for (int i = 0; i < l.outputs; ++i) {
    auto& o = op.output[i];
    o.column = i * rank, o.b = bench.tensor({rank, l.width}), o.bias = bench.tensor({l.width});
    o.u = bench.tensor({tokens, l.width}), o.activation = l.activation;
    if (l.activation != Activation::none) o.y = bench.tensor({tokens, l.width});
  }
  bench.loop(state, op);
  flops(state, linear_flops(l));
}

void tt_linear_backward(benchmark::State& state, const Linear& l) {
  Bench bench;
  TTLinearBackward op;
  const std::int64_t all = rank * l.outputs;
  op.x = bench.tensor({tokens, l.inputs}), op.a = bench.tensor({l.inputs, all});
  op.xa = bench.tensor({tokens, all}), op.outputs = l.outputs;
  op.da = bench.tensor({l.inputs, all}), op.dx = bench.tensor({tokens, l.inputs});
  for (int i = 0; i < l.outputs; ++i) {
    auto& o = op.output[i];
    o.column = i * rank, o.b = bench.tensor({rank, l.width}), o.db = bench.tensor({rank, l.width});
    o.dbias = bench.tensor({l.width}), o.dy = bench.tensor({tokens, l.width}), o.activation = l.activation;
    if (l.activation != Activation::none) o.u = bench.tensor({tokens, l.width});
  }
  bench.loop(state, op);
  flops(state, 2 * linear_flops(l));
}

Tensor offsets(Bench& bench) {
  const Tensor t = bench.make({sequences + 1}, DType::int32);
  for (std::int64_t s = 0; s <= sequences; ++s) {
    t.data<std::int32_t>()[s] = static_cast<std::int32_t>(s * tokens / sequences);
  }
  return t;
}

template <class Operation>
Operation attention(Bench& bench) {
  Operation op;
  op.q = bench.tensor({tokens, hidden}), op.k = bench.tensor({tokens, hidden});
  op.v = bench.tensor({tokens, hidden}), op.out = bench.tensor({tokens, hidden});
  op.log_sum_exp = bench.tensor({heads, tokens}), op.sequence_offsets = offsets(bench);
  op.heads = heads, op.longest = tokens / sequences, op.scale = 0.125, op.dropout = {0.1, 3};
  op.step_inputs = bench.step_inputs();
  return op;
}
constexpr std::int64_t longest = tokens / sequences;
constexpr double score_flops = 2.0 * tokens * longest * hidden;  // of one product of a head

void attention_forward(benchmark::State& state) {
  Bench bench;
  bench.loop(state, attention<AttentionForward>(bench));
  flops(state, 2 * score_flops);
}
BENCHMARK(attention_forward)->Unit(benchmark::kMillisecond)->UseRealTime();

void attention_backward(benchmark::State& state) {
  Bench bench;
  auto op = attention<AttentionBackward>(bench);
  op.dout = bench.tensor({tokens, hidden}), op.dq = bench.tensor({tokens, hidden});
  op.dk = bench.tensor({tokens, hidden}), op.dv = bench.tensor({tokens, hidden});
  bench.loop(state, op);
  flops(state, 5 * score_flops);
}
BENCHMARK(attention_backward)->Unit(benchmark::kMillisecond)->UseRealTime();

// Between the halves of tensor trains: keys and values of all heads are xa's columns.
template <class Operation>
Operation shared_attention(Bench& bench) {
  Operation op;
  op.q = bench.tensor({tokens, heads * rank}), op.out = bench.tensor({tokens, heads * (rank + 1)});
  op.k = bench.tensor({tokens * 3 * rank}), op.v = bench.tensor({tokens * 3 * rank});
  op.log_sum_exp = bench.tensor({heads, tokens}), op.sequence_offsets = offsets(bench);
  op.heads = heads, op.longest = longest, op.scale = 0.125, op.dropout = {0.1, 3};
  op.step_inputs = bench.step_inputs();
  op.shared_keys = op.append_one = true, op.k_stride = op.v_stride = 3 * rank;
  return op;
}

void shared_attention_forward(benchmark::State& state) {
  Bench bench;
  const auto op = shared_attention<AttentionForward>(bench);
  bench.loop(state, op);
  flops(state, work_of(op).flops);
}
BENCHMARK(shared_attention_forward)->Unit(benchmark::kMillisecond)->UseRealTime();

void shared_attention_backward(benchmark::State& state) {
  Bench bench;
  auto op = shared_attention<AttentionBackward>(bench);
  op.dout = bench.tensor(op.out.shape()), op.dq = bench.tensor(op.q.shape());
  op.dk = bench.tensor(op.k.shape()), op.dv = bench.tensor(op.v.shape());
  bench.loop(state, op);
  flops(state, work_of(op).flops);
}
BENCHMARK(shared_attention_backward)->Unit(benchmark::kMillisecond)->UseRealTime();

template <class Operation>
Operation feed_forward(Bench& bench) {
  Operation op;
  op.x = bench.tensor({tokens, hidden}), op.bias = bench.tensor({inner});
  op.a_up = bench.tensor({hidden, rank}), op.b_up = bench.tensor({rank, inner});
  op.a_down = bench.tensor({inner, rank}), op.b_down = bench.tensor({rank, hidden});
  op.xa = bench.tensor({tokens, rank}), op.ha = bench.tensor({tokens, rank});
  return op;
}

void feed_forward_forward(benchmark::State& state) {
  Bench bench;
  auto op = feed_forward<TTFeedForwardForward>(bench);
  op.y = bench.tensor({tokens, hidden});
  bench.loop(state, op);
  flops(state, work_of(op).flops);
}
BENCHMARK(feed_forward_forward)->Unit(benchmark::kMillisecond)->UseRealTime();

void feed_forward_backward(benchmark::State& state) {
  Bench bench;
  auto op = feed_forward<TTFeedForwardBackward>(bench);
  op.dy = bench.tensor({tokens, hidden}), op.dx = bench.tensor({tokens, hidden});
  op.da_up = bench.tensor(op.a_up.shape()), op.db_up = bench.tensor(op.b_up.shape());
  op.dbias = bench.tensor(op.bias.shape());
  op.da_down = bench.tensor(op.a_down.shape()), op.db_down = bench.tensor(op.b_down.shape());
  bench.loop(state, op);
  flops(state, work_of(op).flops);
}
BENCHMARK(feed_forward_backward)->Unit(benchmark::kMillisecond)->UseRealTime();

void bias_dropout_residual_norm_forward(benchmark::State& state) {
  Bench bench;
  BiasDropoutResidualNormForward op;
  op.x = bench.tensor({tokens, hidden}), op.bias = bench.tensor({hidden});
  op.residual = bench.tensor({tokens, hidden}), op.dropout = {0.1, 3}, op.step_inputs = bench.step_inputs();
  op.gamma = bench.tensor({hidden}), op.beta = bench.tensor({hidden});
  op.sum = op.x, op.normed = bench.tensor({tokens, hidden});
  op.mean = bench.tensor({tokens}), op.rstd = bench.tensor({tokens});
  bench.loop(state, op);
  traffic(state, 4.0 * op.x.bytes());
}
BENCHMARK(bias_dropout_residual_norm_forward)->Unit(benchmark::kMillisecond)->UseRealTime();

void bias_dropout_residual_norm_backward(benchmark::State& state) {
  Bench bench;
  BiasDropoutResidualNormBackward op;
  op.dy = bench.tensor({tokens, hidden}), op.sum = bench.tensor({tokens, hidden});
  op.gamma = bench.tensor({hidden}), op.mean = bench.tensor({tokens}), op.rstd = bench.tensor({tokens});
  op.dropout = {0.1, 3}, op.step_inputs = bench.step_inputs();
  op.dresidual = bench.tensor({tokens, hidden}), op.dx = bench.tensor({tokens, hidden});
  op.dbias = bench.tensor({hidden}), op.dgamma = bench.tensor({hidden}), op.dbeta = bench.tensor({hidden});
  bench.loop(state, op);
  traffic(state, 4.0 * op.dy.bytes());
}
BENCHMARK(bias_dropout_residual_norm_backward)->Unit(benchmark::kMillisecond)->UseRealTime();

void bias_gelu_forward(benchmark::State& state) {
  Bench bench;
  BiasActivationForward op;
  op.u = bench.tensor({tokens, inner}), op.bias = bench.tensor({inner}), op.y = bench.tensor({tokens, inner});
  op.activation = Activation::gelu;
  bench.loop(state, op);
  traffic(state, 3.0 * op.u.bytes());
}
BENCHMARK(bias_gelu_forward)->Unit(benchmark::kMillisecond)->UseRealTime();

void dropout(benchmark::State& state) {
  Bench bench;
  Dropout op;
  op.x = bench.tensor({tokens, hidden}), op.y = bench.tensor({tokens, hidden});
  op.dropout = {0.1, 3}, op.step_inputs = bench.step_inputs();
  bench.loop(state, op);
  traffic(state, 2.0 * op.x.bytes());
}
BENCHMARK(dropout)->Unit(benchmark::kMillisecond)->UseRealTime();

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

// As in so many linear layers: cores of trains, or dense matrices.
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

void add_benchmarks() {
  const auto add = [](const std::string& name, auto function, const auto& argument) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { function(state, argument); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  };
  for (const Size& size : sizes) {
    add(std::string("sgemm/") + size.name, raw_sgemm, size);
    add(std::string("MatrixProduct/") + size.name, matrix_product<DType::float32>, size);
    add(std::string("MatrixProduct/bfloat16/") + size.name, matrix_product<DType::bfloat16>, size);
  }
  for (const MuonCase& c : muon_cases) add(std::string("Muon/") + c.name, muon, c);
  for (const Linear& linear : linears) {
    add(std::string("TTLinearForward/") + linear.name, tt_linear_forward, linear);
    add(std::string("TTLinearBackward/") + linear.name, tt_linear_backward, linear);
  }
}
}  // namespace

}  // namespace comera

int main(int argc, char** argv) {
  comera::cpu::prepare_threads(omp_get_max_threads());
  comera::add_benchmarks();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
