// Columns times their gates, and the gradients.

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/tensor_trains/scale_columns.h"
#include "kernels/ops/tensor_trains/scale_columns.h"

namespace comera::COMERA_CUDA {

namespace {

struct ScaledColumns {
  const float *x, *gate;
  std::int64_t width, ldy;
  float* y;

  template <int V>
  __device__ void run(std::int64_t i) const {
    Values<V> value = load<V>(x + i);
    const Values<V> factor = load<V>(gate + i % width);
#pragma unroll
    for (int k = 0; k < V; ++k) value.at[k] *= factor.at[k];
    store(y + i / width * ldy + i % width, value);
  }
};

// The width for each(): rows with stride `ld` within other rows may have any alignment.
std::int64_t width_among(std::int64_t width, std::int64_t ld, const float* first) {
  const bool aligned = ld % 4 == 0 && reinterpret_cast<std::uintptr_t>(first) % (4 * sizeof(float)) == 0;
  return aligned ? width : 1;
}

void scale_columns_forward(const ScaleColumnsForward& op, const KernelContext& context) {
  scale_columns(context.stream, op.x, op.gate, op.y, op.ldy != 0 ? op.ldy : op.x.dim(1));
}

struct ScaledColumnsGradient {
  const float *x, *gate, *dy;
  std::int64_t width, ldy;
  float* dx;
  bool accumulate;

  template <int V>
  struct Item {
    Values<V> x, dy, before;
  };
  template <int V>
  __device__ Item<V> item(std::int64_t row, std::int64_t column) const {
    Item<V> item{load<V>(x + row * width + column), {}, {}};
    if (accumulate) item.before = load<V>(dx + row * width + column);
#pragma unroll
    for (int k = 0; k < V; ++k) item.dy.at[k] = dy[row * ldy + column + k];  // which may have any alignment
    return item;
  }
  template <int V>
  __device__ Values<V> run(const Item<V>& item, std::int64_t row, std::int64_t column) const {
    Values<V> contribution, gradient;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      contribution.at[k] = item.dy.at[k] * item.x.at[k];
      gradient.at[k] = item.before.at[k] + item.dy.at[k] * gate[column + k];
    }
    store_waiting(dx + row * width + column, waiting_of<float>(gradient));
    return contribution;
  }
};

std::size_t scale_columns_backward_scratch(const ScaleColumnsBackward& op) {
  return column_scratch(op.x.dim(0), op.x.dim(1));
}

void scale_columns_backward(const ScaleColumnsBackward& op, const KernelContext& context) {
  const std::int64_t width = op.x.dim(1), ldy = op.ldy != 0 ? op.ldy : width;
  each_column(context.stream,
              ScaledColumnsGradient{op.x.data<float>(), op.gate.data<float>(), op.dy.data<float>(), width,
                                    ldy, op.dx.data<float>(), op.accumulate_dx},
              op.x.dim(0), width, op.dgate.data<float>(), context.scratch);
}

}  // namespace

void scale_columns(const Stream& stream, const Tensor& x, const Tensor& gate, const Tensor& y,
                   std::int64_t ldy) {
  const std::int64_t width = gate.elements();
  auto* to = y.data<float>();
  each(stream, ScaledColumns{x.data<float>(), gate.data<float>(), width, ldy, to}, x.elements(),
       width_among(width, ldy, to));
}

void register_scale_columns(Backend& backend, bool /*tf32*/) {
  backend.set<ScaleColumnsForward>(DType::float32, scale_columns_forward);
  backend.set<ScaleColumnsBackward>(DType::float32, scale_columns_backward, scale_columns_backward_scratch);
}

}  // namespace comera::COMERA_CUDA
