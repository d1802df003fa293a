// The inner part of a feed-forward network of tensor trains in bfloat16: the wide tensors between the narrow
// ends exist only in registers. As in attention, a warp holds tiles of u and derived values as fragments, and
// each becomes an operand of the next product in place.

#include "kernels/cuda/tensor_trains/tt_inner.h"

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"

namespace comera::COMERA_CUDA {

namespace {

template <class Operation>
std::int64_t widest(const Operation& op) {
  return std::max(op.b_up.dim(0), op.a_down.dim(1));
}

template <class Operation>
Inner inner_of(const Operation& op) {
  return {.xa = op.xa.template data<bfloat16>(),
          .b_up = op.b_up.template data<bfloat16>(),
          .a_down = op.a_down.template data<bfloat16>(),
          .dha = nullptr,
          .bias = op.bias.template data<float>(),
          .tokens = static_cast<int>(op.xa.dim(0)),
          .inner = static_cast<int>(op.b_up.dim(1)),
          .rank_up = static_cast<int>(op.b_up.dim(0)),
          .rank_down = static_cast<int>(op.a_down.dim(1))};
}

// Others are composed.
template <class Operation>
bool fits(const Operation& op, std::initializer_list<const Tensor*> tensors) {
  return !why_no_gpu_kernel(op.compute(), op.activation, op.b_up.dim(1), op.b_up.dim(0), op.a_down.dim(1)) &&
         op.xa.dim(0) > 0 && op.xa.dim(0) <= 1 << 30 &&
         std::ranges::all_of(tensors, [](const Tensor* tensor) {
           return reinterpret_cast<std::uintptr_t>(tensor->raw()) % 16 == 0;
         });
}

bool tt_inner_forward_fits(const TTInnerForward& op) {
  return fits(op, {&op.xa, &op.b_up, &op.bias, &op.a_down, &op.ha});
}

std::size_t tt_inner_forward_scratch(const TTInnerForward& op) {
  return inner_rows_scratch(op.xa.dim(0), op.b_up.dim(1), op.a_down.dim(1), widest(op));
}

void tt_inner_forward(const TTInnerForward& op, const KernelContext& context) {
  const RoundedSums sums = inner_rows(inner_of(op), false, widest(op), op.ha.data<bfloat16>(),
                                      reinterpret_cast<float*>(context.scratch), context.stream);
  each(context.stream, sums, sums.count, op.ha.dim(1));
}

bool tt_inner_backward_fits(const TTInnerBackward& op) {
  return fits(op,
              {&op.xa, &op.b_up, &op.bias, &op.a_down, &op.dha, &op.db_up, &op.dbias, &op.da_down, &op.dxa});
}

std::size_t of_rows_scratch(const TTInnerBackward& op) {
  return inner_rows_scratch(op.xa.dim(0), op.b_up.dim(1), op.b_up.dim(0), widest(op));
}
std::size_t tt_inner_backward_scratch(const TTInnerBackward& op) {
  return of_rows_scratch(op) + inner_columns_scratch(op, widest(op));
}

// The sums of both directions. Ranks and inner columns are multiples of 8.
struct InnerSums {
  RoundedSums rows;
  GradientSums columns;

  template <int V>
  __device__ void run(std::int64_t i) const {
    if (i < rows.count)
      rows.run<V>(i);
    else
      columns.run<V>(i - rows.count);
  }
};

void tt_inner_backward(const TTInnerBackward& op, const KernelContext& context) {
  Inner inner = inner_of(op);
  inner.dha = op.dha.data<bfloat16>();
  auto* scratch = reinterpret_cast<float*>(context.scratch);
  const InnerSums sums{
      inner_rows(inner, true, widest(op), op.dxa.data<bfloat16>(), scratch, context.stream),
      inner_columns(op, inner, widest(op), scratch + of_rows_scratch(op) / sizeof(float), context.stream)};
  each(context.stream, sums, sums.rows.count + sums.columns.count, op.b_up.dim(1));
}

}  // namespace

void register_tt_inner(Backend& backend, bool /*tf32*/) {
  backend.set<TTInnerForward>(DType::bfloat16, tt_inner_forward, tt_inner_forward_scratch,
                              tt_inner_forward_fits);
  backend.set<TTInnerBackward>(DType::bfloat16, tt_inner_backward, tt_inner_backward_scratch,
                               tt_inner_backward_fits);
}

}  // namespace comera::COMERA_CUDA
