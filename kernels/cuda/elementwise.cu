// Operations on every number by itself, some with sums over columns.

#include "kernels/cuda/activations.h"
#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/bias_activation.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/layout.h"
#include "kernels/ops/scale_columns.h"

namespace comera::COMERA_CUDA {

namespace {

template <class T>
struct BiasActivation {
  T* u;
  const float* bias;  // or null
  std::int64_t width;
  Activation activation;
  T* y;

  template <int V>
  __device__ void run(std::int64_t i) const {
    Values<V> value = load<V>(u + i);
    if (bias != nullptr) {
      const Values<V> added = load<V>(bias + i % width);
#pragma unroll
      for (int k = 0; k < V; ++k) value.at[k] += added.at[k];
      store(u + i, value);
    }
    if (activation == Activation::none) return;
#pragma unroll
    for (int k = 0; k < V; ++k) value.at[k] = activate(activation, value.at[k]);
    store(y + i, value);
  }
};

template <class T>
void bias_activation_forward(const BiasActivationForward& op, const KernelContext& context) {
  const std::int64_t width = op.u.dim(1);
  const bool active = op.activation != Activation::none;
  each(context.stream,
       BiasActivation<T>{op.u.data<T>(), op.bias ? op.bias.data<float>() : nullptr, width, op.activation,
                         active ? op.y.data<T>() : nullptr},
       op.u.elements(), width);
}

template <class T>
struct ActivationGradient {
  T* dy;
  const T* u_or_y;  // null without an activation
  Activation activation;
  std::int64_t width;

  template <int V>
  __device__ Values<V> run(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = row * width + column;
    Values<V> gradient = load<V>(dy + i);
    if (activation == Activation::none) return gradient;
    const Values<V> at = load<V>(u_or_y + i);
#pragma unroll
    for (int k = 0; k < V; ++k) gradient.at[k] *= slope(activation, at.at[k]);
    store(dy + i, gradient);
    return gradient;
  }
};

std::size_t bias_activation_backward_scratch(const BiasActivationBackward& op) {
  return op.dbias ? column_scratch(op.dy.dim(0), op.dy.dim(1)) : 0;
}

template <class T>
void bias_activation_backward(const BiasActivationBackward& op, const KernelContext& context) {
  const T* at = nullptr;
  if (op.activation == Activation::gelu) at = op.u.data<T>();
  if (op.activation == Activation::tanh) at = op.y.data<T>();
  each_column(context.stream, ActivationGradient<T>{op.dy.data<T>(), at, op.activation, op.dy.dim(1)},
              op.dy.dim(0), op.dy.dim(1), op.dbias ? op.dbias.data<float>() : nullptr, context.scratch);
}

template <class T>
struct Masked {
  const T* x;
  DropoutMask mask;
  T* y;

  template <int V>
  __device__ void run(std::int64_t i) const {
    Values<V> value = load<V>(x + i);
    const Values<V> factor = dropout_factors<V>(mask, i);
#pragma unroll
    for (int k = 0; k < V; ++k) value.at[k] *= factor.at[k];
    store(y + i, value);
  }
};

template <class T>
void dropout(const Dropout& op, const KernelContext& context) {
  each(context.stream, Masked<T>{op.x.data<T>(), mask_of(op.dropout, op.step_inputs), op.y.data<T>()},
       op.x.elements(), op.x.elements());
}

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

// The width for each(): rows that lie among those of others, `apart` from one another, may begin anywhere.
std::int64_t width_among(std::int64_t width, std::int64_t apart, const float* first) {
  const bool aligned = apart % 4 == 0 && reinterpret_cast<std::uintptr_t>(first) % (4 * sizeof(float)) == 0;
  return aligned ? width : 1;
}

void scale_columns_forward(const ScaleColumnsForward& op, const KernelContext& context) {
  const std::int64_t width = op.x.dim(1), ldy = op.ldy != 0 ? op.ldy : width;
  auto* y = op.y.data<float>();
  each(context.stream, ScaledColumns{op.x.data<float>(), op.gate.data<float>(), width, ldy, y},
       op.x.elements(), width_among(width, ldy, y));
}

struct ScaledColumnsGradient {
  const float *x, *gate, *dy;
  std::int64_t width, ldy;
  float* dx;

  template <int V>
  __device__ Values<V> run(std::int64_t row, std::int64_t column) const {
    Values<V> contribution, gradient;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float dy_here = dy[row * ldy + column + k];
      contribution.at[k] = dy_here * x[row * width + column + k];
      gradient.at[k] = dy_here * gate[column + k];
    }
    store(dx + row * width + column, gradient);
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
                                    ldy, op.dx.data<float>()},
              op.x.dim(0), width, op.dgate.data<float>(), context.scratch);
}

struct SwappedAxes {
  const float* x;
  std::int64_t p, q, inner;
  float* y;

  // i counts in y: (outer, q, p, inner)
  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t c = i % inner, block = i / inner;
    const std::int64_t a = block % p, b = block / p % q, outer = block / (p * q);
    store(y + i, load<V>(x + ((outer * p + a) * q + b) * inner + c));
  }
};

void swap_axes(const SwapAxes& op, const KernelContext& context) {
  each(context.stream,
       SwappedAxes{op.x.data<float>(), op.x.dim(1), op.x.dim(2), op.x.dim(3), op.y.data<float>()},
       op.x.elements(), op.x.dim(3));
}

template <class T>
struct Filled {
  float value;
  T* x;
  template <int V>
  __device__ void run(std::int64_t i) const {
    Values<V> values;
#pragma unroll
    for (int k = 0; k < V; ++k) values.at[k] = value;
    store(x + i, values);
  }
};

template <class T>
void fill(const Fill& op, const KernelContext& context) {
  each(context.stream, Filled<T>{static_cast<float>(op.value), op.x.data<T>()}, op.x.elements(),
       op.x.elements());
}

template <class T>
struct Added {
  const T* x;
  T* y;
  template <int V>
  __device__ void run(std::int64_t i) const {
    Values<V> sum = load<V>(y + i);
    const Values<V> value = load<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.at[k] += value.at[k];
    store(y + i, sum);
  }
};

template <class T>
void add(const Add& op, const KernelContext& context) {
  each(context.stream, Added<T>{op.x.data<T>(), op.y.data<T>()}, op.x.elements(), op.x.elements());
}

}  // namespace

namespace {

template <class To, class From>
struct Converted {
  const From* x;
  To* y;
  template <int V>
  __device__ void run(std::int64_t i) const {
    store(y + i, load<V>(x + i));
  }
};

template <class To>
void cast(const Cast& op, const KernelContext& context) {
  const auto from = [&](const auto* x) {
    using From = std::remove_cvref_t<decltype(*x)>;
    each(context.stream, Converted<To, From>{x, op.y.data<To>()}, op.x.elements(), op.x.elements());
  };
  if (op.x.dtype() == DType::bfloat16)
    from(op.x.data<bfloat16>());
  else
    from(op.x.data<float>());
}

// What exists for every type of activations.
template <class T>
void register_activations(Backend& backend) {
  backend.set<BiasActivationForward>(dtype_of<T>, bias_activation_forward<T>);
  backend.set<BiasActivationBackward>(dtype_of<T>, bias_activation_backward<T>,
                                      bias_activation_backward_scratch);
  backend.set<Dropout>(dtype_of<T>, dropout<T>);
  backend.set<Fill>(dtype_of<T>, fill<T>);
  backend.set<Add>(dtype_of<T>, add<T>);
  backend.set<Cast>(dtype_of<T>, cast<T>);
}

}  // namespace

void register_elementwise(Backend& backend) {
  register_activations<float>(backend);
  register_activations<bfloat16>(backend);
  backend.set<ScaleColumnsForward>(DType::float32, scale_columns_forward);
  backend.set<ScaleColumnsBackward>(DType::float32, scale_columns_backward, scale_columns_backward_scratch);
  backend.set<SwapAxes>(DType::float32, swap_axes);
}

}  // namespace comera::COMERA_CUDA
