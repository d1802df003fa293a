#include "kernels/ops/tensor_trains/diagonal.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

namespace {
// A row of the narrower tensor beside all parts of the wider one's.
template <class T>
void forward_row(const T* x, std::int64_t inputs, const float* d, T* u, std::int64_t outputs) {
  for (std::int64_t part = 0; part < outputs; part += inputs)  // once where there are more inputs
    for_columns(0, std::min(inputs, outputs), [&](std::int64_t c, auto at) {
      vec value = at.load(u + part + c);
      for (std::int64_t i = c; i < inputs; i += outputs) value += at.load(d + part + i) * at.load(x + i);
      at.store(u + part + c, value);
    });
}

template <class T>
void backward_row(const T* x, std::int64_t inputs, const float* d, const T* du, std::int64_t outputs, T* dx,
                  float* dd) {
  const std::int64_t narrow = std::min(inputs, outputs);
  for (std::int64_t part = 0; part < inputs; part += narrow)  // once where there are more outputs
    for_columns(0, narrow, [&](std::int64_t c, auto at) {
      const vec input = at.load(x + part + c);
      vec gradient = at.load(dx + part + c);
      for (std::int64_t j = c; j < outputs; j += narrow) {
        const std::int64_t k = part + j;  // one of the two is less than `narrow`
        const vec from = at.load(du + j);
        gradient += at.load(d + k) * from;
        at.store(dd + k, at.load(dd + k) + from * input);
      }
      at.store(dx + part + c, gradient);
    });
}
}  // namespace

template <class T>
void diagonal_forward(const DiagonalForward& op, const KernelContext&) {
  const std::int64_t rows = op.x.dim(0), inputs = op.x.dim(1), outputs = op.u.dim(1),
                     pieces = row_pieces(rows);
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    for (std::int64_t i = rows * piece / pieces; i < rows * (piece + 1) / pieces; ++i)
      forward_row(op.x.data<T>() + i * inputs, inputs, op.diagonal.data<float>(),
                  op.u.data<T>() + i * outputs, outputs);
  });
}

std::size_t diagonal_backward_scratch(const DiagonalBackward& op) {
  return static_cast<std::size_t>(row_pieces(op.x.dim(0)) * op.diagonal.elements()) * sizeof(float);
}

template <class T>
void diagonal_backward(const DiagonalBackward& op, const KernelContext& context) {
  const std::int64_t rows = op.x.dim(0), inputs = op.x.dim(1), outputs = op.du.dim(1),
                     pieces = row_pieces(rows);
  const std::int64_t width = op.diagonal.elements();
  auto* sums = reinterpret_cast<float*>(context.scratch);  // (pieces, width)
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    float* dd = sums + piece * width;
    std::fill_n(dd, width, 0.F);
    for (std::int64_t i = rows * piece / pieces; i < rows * (piece + 1) / pieces; ++i)
      backward_row(op.x.data<T>() + i * inputs, inputs, op.diagonal.data<float>(),
                   op.du.data<T>() + i * outputs, outputs, op.dx.data<T>() + i * inputs, dd);
  });
  add_pieces(op.ddiagonal.data<float>(), sums, width, pieces, width);
}

COMERA_FOR_EACH_TYPE(DiagonalForward, diagonal_forward)
COMERA_FOR_EACH_TYPE(DiagonalBackward, diagonal_backward)

COMERA_CPU_END
