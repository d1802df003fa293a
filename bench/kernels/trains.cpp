#include "bench/kernels/bench.h"
#include "kernels/ops/tensor_trains/tt_feed_forward.h"
#include "kernels/ops/tensor_trains/tt_linear.h"

namespace comera {

namespace {

// The linear layers of a group: outputs with one input.
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

}  // namespace

void add_linear_benchmarks() {
  for (const Linear& linear : linears) {
    add_benchmark("TTLinearForward", tt_linear_forward, linear);
    add_benchmark("TTLinearBackward", tt_linear_backward, linear);
  }
}

}  // namespace comera
