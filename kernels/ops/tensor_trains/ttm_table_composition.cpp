#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/tensor_trains/ttm_table.h"

namespace comera {

namespace {

// One product (L nl, rank) x (rank, R nr), whose result has its middle axes swapped.
void ttm_table_forward(const TTMTableForward& op, const Context& context) {
  const std::int64_t left_rows = op.left.dim(0), nl = op.left.dim(1), rank = op.left.dim(2);
  const std::int64_t right_rows = op.right.dim(1), nr = op.right.dim(2);
  const DType master = op.left.dtype();
  ArenaScope scope(context.arena);
  const Tensor product = scope.tensor({left_rows, nl, right_rows, nr}, master);
  run(context,
      MatrixProduct{
          .a = op.left, .b = op.right, .c = product, .m = left_rows * nl, .n = right_rows * nr, .k = rank});
  if (op.rows.dtype() == master) return run(context, SwapAxes{.x = product, .y = op.rows});
  const Tensor wide = scope.tensor(op.rows.shape(), master);
  run(context, SwapAxes{.x = product, .y = wide});
  run(context, Cast{.x = wide, .y = op.rows});
}

void ttm_table_backward(const TTMTableBackward& op, const Context& context) {
  if (op.drows.dtype() != op.left.dtype()) {
    ArenaScope scope(context.arena);
    TTMTableBackward wide = op;
    wide.drows = scope.tensor(op.drows.shape(), op.left.dtype());
    run(context, Cast{.x = op.drows, .y = wide.drows});
    return run(context, wide);
  }
  const std::int64_t left_rows = op.left.dim(0), nl = op.left.dim(1), rank = op.left.dim(2);
  const std::int64_t right_rows = op.right.dim(1), nr = op.right.dim(2);
  ArenaScope scope(context.arena);
  const Tensor dproduct = scope.tensor({left_rows, nl, right_rows, nr}, op.drows.dtype());
  run(context, SwapAxes{.x = op.drows.reshape({left_rows, right_rows, nl, nr}), .y = dproduct});
  run(context, MatrixProduct{.a = dproduct,
                             .b = op.right,
                             .c = op.dleft,
                             .m = left_rows * nl,
                             .n = rank,
                             .k = right_rows * nr,
                             .transpose_b = true,
                             .accumulate = true});
  run(context, MatrixProduct{.a = op.left,
                             .b = dproduct,
                             .c = op.dright,
                             .m = rank,
                             .n = right_rows * nr,
                             .k = left_rows * nl,
                             .transpose_a = true,
                             .accumulate = true});
}

}  // namespace

void compose_ttm_table(Backend& backend, DType compute) {
  backend.compose<TTMTableForward>(compute, ttm_table_forward);
  backend.compose<TTMTableBackward>(compute, ttm_table_backward);
}

}  // namespace comera
