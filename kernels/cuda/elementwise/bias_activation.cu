// Adds a bias and applies an activation, and their gradients.

#include "kernels/cuda/each.h"
#include "kernels/cuda/elementwise/activations.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/elementwise/bias_activation.h"

namespace comera::COMERA_CUDA {

namespace {

template <class T>
struct BiasActivation {
  T* u;
  const float* bias;  // or null
  std::int64_t width;
  Activation activation;
  T* y;
  static constexpr int at_once = 16 / sizeof(T);

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

  static constexpr int at_once = 16 / sizeof(T);

  template <int V>
  struct Item {
    Waiting<T, V> gradient, at;
  };
  template <int V>
  __device__ Item<V> item(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = row * width + column;
    return {load_waiting<V>(dy + i),
            activation != Activation::none ? load_waiting<V>(u_or_y + i) : Waiting<T, V>{}};
  }
  template <int V>
  __device__ Values<V> run(const Item<V>& item, std::int64_t row, std::int64_t column) const {
    Values<V> gradient = values_of(item.gradient);
    if (activation == Activation::none) return gradient;
    const Values<V> at = values_of(item.at);
#pragma unroll
    for (int k = 0; k < V; ++k) gradient.at[k] *= slope(activation, at.at[k]);
    store_waiting(dy + row * width + column, waiting_of<T>(gradient));
    return gradient;
  }
};

std::size_t bias_activation_backward_scratch(const BiasActivationBackward& op) {
  return op.dbias ? column_scratch(op.dy.dim(0), op.dy.dim(1)) : 0;
}

template <class T>
void bias_activation_backward(const BiasActivationBackward& op, const KernelContext& context) {
  const T* at = nullptr;
  if (slope_by_argument(op.activation)) at = op.u.data<T>();
  if (slope_by_value(op.activation)) at = op.y.data<T>();
  each_column(context.stream, ActivationGradient<T>{op.dy.data<T>(), at, op.activation, op.dy.dim(1)},
              op.dy.dim(0), op.dy.dim(1), op.dbias ? op.dbias.data<float>() : nullptr, context.scratch);
}

template <class T>
void register_for(Backend& backend) {
  backend.set<BiasActivationForward>(dtype_of<T>, bias_activation_forward<T>);
  backend.set<BiasActivationBackward>(dtype_of<T>, bias_activation_backward<T>,
                                      bias_activation_backward_scratch);
}

}  // namespace

void register_bias_activation(Backend& backend, bool /*tf32*/) {
  register_for<float>(backend);
  register_for<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
