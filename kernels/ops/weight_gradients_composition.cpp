#include "kernels/ops/weight_gradients.h"

#include "kernels/ops/bias_activation.h"
#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"

namespace comera {

namespace {

void weight_gradients(const WeightGradients& op, const Context& context) {
  for (const WeightGradient& one : op.gradients) {
    run(context, one.product());
    if (one.dbias) run(context, BiasActivationBackward{.u = {}, .y = {}, .dy = one.dy, .dbias = one.dbias});
  }
}

}  // namespace

void compose_weight_gradients(Backend& backend, DType compute) {
  backend.compose<WeightGradients>(compute, weight_gradients);
}

}  // namespace comera
