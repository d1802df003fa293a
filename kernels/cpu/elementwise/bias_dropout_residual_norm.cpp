#include "kernels/ops/elementwise/bias_dropout_residual_norm.h"

#include "kernels/cpu/elementwise/norm_rows.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

template <class T>
void bias_dropout_residual_norm_forward(const BiasDropoutResidualNormForward& op, const KernelContext&) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1), pieces = row_pieces(rows);
  const DropoutRows dropout(op, width);
  const float* bias = op.bias.data<float>();
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    for (std::int64_t i = rows * piece / pieces; i < rows * (piece + 1) / pieces; ++i) {
      const T* x = op.x.data<T>() + i * width;
      const T* residual = op.residual.data<T>() + i * width;
      T* sum = op.sum.data<T>() + i * width;
      dropout.for_each(i, [&](std::int64_t c, vec multiplier, auto at) {
        at.store(sum + c, at.load(residual + c) + (at.load(x + c) + at.load(bias + c)) * multiplier);
      });
      if (!op.gamma) continue;
      norm_row(sum, op.gamma.data<float>(), op.beta.data<float>(), op.eps, width,
               op.normed.data<T>() + i * width, op.mean.data<float>()[i], op.rstd.data<float>()[i]);
    }
  });
}

std::size_t bias_dropout_residual_norm_backward_scratch(const BiasDropoutResidualNormBackward& op) {
  return static_cast<std::size_t>(row_pieces(op.dy.dim(0)) * 3 * op.dy.dim(1)) * sizeof(float);
}

template <class T>
void bias_dropout_residual_norm_backward(const BiasDropoutResidualNormBackward& op,
                                         const KernelContext& context) {
  const std::int64_t rows = op.dy.dim(0), width = op.dy.dim(1), pieces = row_pieces(rows);
  const DropoutRows dropout(op, width);
  const bool norm = static_cast<bool>(op.gamma);
  const float* gamma = norm ? op.gamma.data<float>() : nullptr;
  auto* sums = reinterpret_cast<float*>(context.scratch);  // (pieces, 3, width): dbias, dgamma, dbeta
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    float* dbias = sums + piece * 3 * width;
    float *dgamma = dbias + width, *dbeta = dgamma + width;
    std::fill_n(dbias, 3 * width, 0.F);
    for (std::int64_t i = rows * piece / pieces; i < rows * (piece + 1) / pieces; ++i) {
      const T* dy = op.dy.data<T>() + i * width;
      T* dresidual = op.dresidual.data<T>() + i * width;
      T* dx = op.dx.data<T>() + i * width;
      const auto finish = [&](std::int64_t c, vec dsum, vec multiplier, auto at) {
        const vec value = dsum * multiplier;
        at.store(dresidual + c, dsum);
        at.store(dx + c, value);
        at.store(dbias + c, at.load(dbias + c) + value);
      };
      if (!norm) {
        dropout.for_each(
            i, [&](std::int64_t c, vec multiplier, auto at) { finish(c, at.load(dy + c), multiplier, at); });
        continue;
      }
      const T* sum = op.sum.data<T>() + i * width;
      const float mean = op.mean.data<float>()[i], rstd = op.rstd.data<float>()[i];
      const NormRowMeans means = norm_row_sums(sum, gamma, mean, rstd, dy, width, dgamma, dbeta);
      dropout.for_each(i, [&](std::int64_t c, vec multiplier, auto at) {
        finish(c, norm_gradient(at.load(sum + c), at.load(gamma + c), mean, rstd, at.load(dy + c), means),
               multiplier, at);
      });
    }
  });
  add_pieces(op.dbias.data<float>(), sums, 3 * width, pieces, width);
  if (!norm) return;
  add_pieces(op.dgamma.data<float>(), sums + width, 3 * width, pieces, width);
  add_pieces(op.dbeta.data<float>(), sums + 2 * width, 3 * width, pieces, width);
}

COMERA_FOR_EACH_TYPE(BiasDropoutResidualNormForward, bias_dropout_residual_norm_forward)
COMERA_FOR_EACH_TYPE(BiasDropoutResidualNormBackward, bias_dropout_residual_norm_backward)

COMERA_CPU_END
