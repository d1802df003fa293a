#include "kernels/ops/elementwise/bias_activation.h"

#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

namespace {
constexpr int together = 4;  // vectors, whose activations overlap (GeluPlaces)

template <class T, Activation activation>
void forward_rows(const BiasActivationForward& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = op.u.dim(1);
  const float* bias = op.bias ? op.bias.data<float>() : nullptr;
  for (std::int64_t i = begin; i < end; ++i) {
    T* u = op.u.data<T>() + i * width;
    T* y = activation == Activation::none ? nullptr : op.y.data<T>() + i * width;
    const auto biased = [&](std::int64_t c, auto at) {
      vec value = at.load(u + c);
      if (bias != nullptr) {
        value += at.load(bias + c);
        at.store(u + c, value);
      }
      return value;
    };
    for_column_groups<together>(
        width,
        [&](std::int64_t c) {
          vec values[together];
          for (int k = 0; k < together; ++k) values[k] = biased(c + k * lanes, WholeVector{});
          if constexpr (activation == Activation::none) return;
          activate<activation>(values);
          for (int k = 0; k < together; ++k) store(y + c + k * lanes, values[k]);
        },
        [&](std::int64_t c, auto at) {
          const vec value = biased(c, at);
          if constexpr (activation != Activation::none) at.store(y + c, activated<activation>(value));
        });
  }
}

template <class T, Activation activation>
void backward_rows(const BiasActivationBackward& op, std::int64_t begin, std::int64_t end, float* dbias) {
  const std::int64_t width = op.dy.dim(1);
  const T* saved = nullptr;
  if (slope_by_argument(activation)) saved = op.u.data<T>();
  if (slope_by_value(activation)) saved = op.y.data<T>();
  for (std::int64_t i = begin; i < end; ++i) {
    T* dy = op.dy.data<T>() + i * width;
    const auto add_bias = [&](std::int64_t c, vec du, auto at) {
      if (dbias != nullptr) at.store(dbias + c, at.load(dbias + c) + du);
    };
    for_column_groups<together>(
        width,
        [&](std::int64_t c) {
          vec du[together];
          for (int k = 0; k < together; ++k) du[k] = load(dy + c + k * lanes);
          if constexpr (activation != Activation::none) {
            vec its[together];
            for (int k = 0; k < together; ++k) its[k] = load(saved + i * width + c + k * lanes);
            times_derivatives<activation>(du, its);
            for (int k = 0; k < together; ++k) store(dy + c + k * lanes, du[k]);
          }
          for (int k = 0; k < together; ++k) add_bias(c + k * lanes, du[k], WholeVector{});
        },
        [&](std::int64_t c, auto at) {
          vec du = at.load(dy + c);
          if constexpr (activation != Activation::none) {
            du = derivative_times<activation>(du, at.load(saved + i * width + c));
            at.store(dy + c, du);
          }
          add_bias(c, du, at);
        });
  }
}
}  // namespace

template <class T>
void bias_activation_forward(const BiasActivationForward& op, const KernelContext&) {
  const std::int64_t rows = op.u.dim(0), pieces = row_pieces(rows);
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t begin = rows * piece / pieces, end = rows * (piece + 1) / pieces;
    for_activation(op.activation, [&]<Activation a>() { forward_rows<T, a>(op, begin, end); });
  });
}

std::size_t bias_activation_backward_scratch(const BiasActivationBackward& op) {
  return static_cast<std::size_t>(row_pieces(op.dy.dim(0)) * op.dy.dim(1)) * sizeof(float);
}

template <class T>
void bias_activation_backward(const BiasActivationBackward& op, const KernelContext& context) {
  const std::int64_t rows = op.dy.dim(0), width = op.dy.dim(1), pieces = row_pieces(rows);
  auto* sums = reinterpret_cast<float*>(context.scratch);  // (pieces, width)
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t begin = rows * piece / pieces, end = rows * (piece + 1) / pieces;
    float* dbias = op.dbias ? sums + piece * width : nullptr;
    if (dbias != nullptr) std::fill_n(dbias, width, 0.F);
    for_activation(op.activation, [&]<Activation a>() { backward_rows<T, a>(op, begin, end, dbias); });
  });
  if (op.dbias) add_pieces(op.dbias.data<float>(), sums, width, pieces, width);
}

COMERA_FOR_EACH_TYPE(BiasActivationForward, bias_activation_forward)
COMERA_FOR_EACH_TYPE(BiasActivationBackward, bias_activation_backward)

COMERA_CPU_END
