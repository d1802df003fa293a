#include "kernels/ops/attention/attention.h"
#include "bench/kernels/bench.h"

namespace comera {

namespace {

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

// Between the factors of tensor trains: keys and values of all heads are xa's columns.
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

}  // namespace

}  // namespace comera
