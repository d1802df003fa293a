#include "bench/kernels/bench.h"
#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/elementwise/bias_dropout_residual_norm.h"
#include "kernels/ops/elementwise/dropout.h"

namespace comera {

namespace {

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

}  // namespace

}  // namespace comera
