#include "kernels/ops/products/weight_gradients.h"

#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/elementwise/layout.h"

namespace comera {

namespace {

// A backend may compute some of them natively, for instance those of some sizes.
void weight_gradients(const WeightGradients& op, const Context& context) {
  const std::size_t parts = op.gradients.size() + (op.sums.empty() ? 0 : 1);
  if (parts > 1) {
    if (!op.sums.empty()) run(context, WeightGradients{.type = op.type, .sums = op.sums});
    for (const WeightGradient& one : op.gradients)
      run(context, WeightGradients{.type = op.type, .gradients = {one}});
    return;
  }
  for (const WeightGradient& one : op.gradients) {
    run(context, one.product());
    if (one.dbias) run(context, BiasActivationBackward{.u = {}, .y = {}, .dy = one.dy, .dbias = one.dbias});
  }
  for (const PartialSums& one : op.sums)
    for (std::int64_t p = 0; p < one.count; ++p)
      run(context, Add{.x = one.parts.slice(p * one.apart, one.to.shape()), .y = one.to});
}

}  // namespace

void compose_weight_gradients(Backend& backend, DType compute) {
  backend.compose<WeightGradients>(compute, weight_gradients);
}

}  // namespace comera
