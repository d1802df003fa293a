#include "kernels/ops/elementwise/layer_norm.h"

#include "kernels/cpu/elementwise/norm_rows.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

template <class T>
void layer_norm_forward(const LayerNormForward& op, const KernelContext&) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1), pieces = row_pieces(rows);
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    for (std::int64_t i = rows * piece / pieces; i < rows * (piece + 1) / pieces; ++i) {
      norm_row(op.x.data<T>() + i * width, op.gamma.data<float>(), op.beta.data<float>(), op.eps, width,
               op.y.data<T>() + i * width, op.mean.data<float>()[i], op.rstd.data<float>()[i]);
    }
  });
}

std::size_t layer_norm_backward_scratch(const LayerNormBackward& op) {
  return static_cast<std::size_t>(row_pieces(op.x.dim(0)) * 2 * op.x.dim(1)) * sizeof(float);
}

template <class T>
void layer_norm_backward(const LayerNormBackward& op, const KernelContext& context) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1), pieces = row_pieces(rows);
  auto* sums = reinterpret_cast<float*>(context.scratch);  // (pieces, 2, width): dgamma, dbeta
  const float* gamma = op.gamma.data<float>();
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    float* dgamma = sums + piece * 2 * width;
    std::fill_n(dgamma, 2 * width, 0.F);
    for (std::int64_t i = rows * piece / pieces; i < rows * (piece + 1) / pieces; ++i) {
      const T* x = op.x.data<T>() + i * width;
      const T* dy = op.dy.data<T>() + i * width;
      T* dx = op.dx.data<T>() + i * width;
      const float mean = op.mean.data<float>()[i], rstd = op.rstd.data<float>()[i];
      const NormRowMeans means = norm_row_sums(x, gamma, mean, rstd, dy, width, dgamma, dgamma + width);
      for_columns(0, width, [&](std::int64_t c, auto at) {
        vec value = norm_gradient(at.load(x + c), at.load(gamma + c), mean, rstd, at.load(dy + c), means);
        if (op.accumulate_dx) value += at.load(dx + c);
        at.store(dx + c, value);
      });
    }
  });
  add_pieces(op.dgamma.data<float>(), sums, 2 * width, pieces, width);
  add_pieces(op.dbeta.data<float>(), sums + width, 2 * width, pieces, width);
}

COMERA_FOR_EACH_TYPE(LayerNormForward, layer_norm_forward)
COMERA_FOR_EACH_TYPE(LayerNormBackward, layer_norm_backward)

COMERA_CPU_END
