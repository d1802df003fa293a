#include "model/layers/unit_rows.h"

#include <cmath>

#include "kernels/ops/elementwise/layer_norm.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/matrix_product.h"

namespace comera {

namespace {
constexpr double eps = 1e-12;  // of the variance: for rows of zeros
}

UnitRows::UnitRows(const Context& context, const Tensor& x, double scale) {
  const std::int64_t rows = x.dim(0), width = x.dim(1);
  const DType dtype = x.dtype();
  Arena& arena = context.arena;
  signs_ = arena.saved({2}, dtype);
  run(context, Fill{.x = signs_.slice(0, {1}), .value = 1});
  run(context, Fill{.x = signs_.slice(1, {1}), .value = -1});
  gamma_ = arena.saved({2 * width}, dtype);
  run(context, Fill{.x = gamma_, .value = std::sqrt(scale / static_cast<double>(2 * width))});
  const Tensor beta = arena.saved({2 * width}, dtype);
  run(context, Fill{.x = beta, .value = 0});
  doubled_ = arena.saved({rows, 2 * width}, dtype);
  run(context, MatrixProduct{.a = x, .b = signs_, .c = doubled_, .m = rows * width, .n = 2, .k = 1});
  y_ = arena.saved({rows, 2 * width}, dtype);
  mean_ = arena.saved({rows}, dtype);
  rstd_ = arena.saved({rows}, dtype);
  run(context,
      LayerNormForward{
          .x = doubled_, .gamma = gamma_, .beta = beta, .eps = eps, .y = y_, .mean = mean_, .rstd = rstd_});
}

void UnitRows::backward(const Context& context, const Tensor& dy, const Tensor& dx) const {
  ArenaScope scope(context.arena);
  const Tensor unused = scope.tensor({2, gamma_.dim(0)}, dy.dtype());
  run(context, Fill{.x = unused, .value = 0});
  run(context, LayerNormBackward{.x = doubled_,
                                 .gamma = gamma_,
                                 .mean = mean_,
                                 .rstd = rstd_,
                                 .dy = dy,
                                 .dx = dy,
                                 .accumulate_dx = false,
                                 .dgamma = unused.rows(0, 1).reshape({gamma_.dim(0)}),
                                 .dbeta = unused.rows(1, 1).reshape({gamma_.dim(0)})});
  run(context, MatrixProduct{.a = dy, .b = signs_, .c = dx, .m = dx.elements(), .n = 1, .k = 2});
}

}  // namespace comera
