// Diagonals beside linear layers, and the gradients. Bounded by bytes.

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/tensor_trains/diagonal.h"

namespace comera::COMERA_CUDA {

namespace {

// to[t, c] += Σ d[k] from[t, …]: parts of `from` are folded where it is the wider one, and repeated where it
// is the narrower one.
template <class T>
struct Diagonal {
  const T* from;
  const float* d;
  T* to;
  std::int64_t from_width, to_width;
  static constexpr int at_once = 16 / sizeof(T);

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t row = i / to_width, column = i - row * to_width;
    Values<V> sum = load<V>(to + i);
    const auto add = [&](std::int64_t k, std::int64_t at) {
      const Values<V> factor = load<V>(d + k), value = load<V>(from + row * from_width + at);
#pragma unroll
      for (int v = 0; v < V; ++v) sum.at[v] += factor.at[v] * value.at[v];
    };
    if (from_width <= to_width)
      add(column, column % from_width);
    else
      for (std::int64_t k = column; k < from_width; k += to_width) add(k, k);
    store(to + i, sum);
  }
};

template <class T>
void add_diagonal(const Stream& stream, const Tensor& from, const Tensor& d, const Tensor& to) {
  const std::int64_t from_width = from.dim(1), to_width = to.dim(1);
  each(stream, Diagonal<T>{from.data<T>(), d.data<float>(), to.data<T>(), from_width, to_width},
       to.elements(), std::min(from_width, to_width));
}

template <class T>
void diagonal_forward(const DiagonalForward& op, const KernelContext& context) {
  add_diagonal<T>(context.stream, op.x, op.diagonal, op.u);
}

// Over the columns of the wider tensor: the diagonal's own gradient. Vectors must divide the narrower one.
template <class T, int AtOnce>
struct DiagonalGradient {
  const T *x, *du;
  std::int64_t inputs, outputs;
  static constexpr int at_once = AtOnce;

  template <int V>
  struct Item {
    Waiting<T, V> x, du;
  };
  template <int V>
  __device__ Item<V> item(std::int64_t row, std::int64_t column) const {
    return {load_waiting<V>(x + row * inputs + column % inputs),
            load_waiting<V>(du + row * outputs + column % outputs)};
  }
  template <int V>
  __device__ Values<V> run(const Item<V>& item, std::int64_t, std::int64_t) const {
    Values<V> product = values_of(item.x);
    const Values<V> gradient = values_of(item.du);
#pragma unroll
    for (int v = 0; v < V; ++v) product.at[v] *= gradient.at[v];
    return product;
  }
};

std::size_t diagonal_backward_scratch(const DiagonalBackward& op) {
  return column_scratch(op.x.dim(0), op.diagonal.elements());
}

template <class T>
void diagonal_backward(const DiagonalBackward& op, const KernelContext& context) {
  const std::int64_t inputs = op.x.dim(1), outputs = op.du.dim(1);
  add_diagonal<T>(context.stream, op.du, op.diagonal, op.dx);
  const auto run = [&]<int AtOnce>(std::integral_constant<int, AtOnce>) {
    each_column(context.stream, DiagonalGradient<T, AtOnce>{op.x.data<T>(), op.du.data<T>(), inputs, outputs},
                op.x.dim(0), op.diagonal.elements(), op.ddiagonal.data<float>(), context.scratch);
  };
  constexpr int most = 16 / sizeof(T);
  if (std::min(inputs, outputs) % most == 0)
    run(std::integral_constant<int, most>());
  else
    run(std::integral_constant<int, 1>());
}

template <class T>
void register_for(Backend& backend) {
  backend.set<DiagonalForward>(dtype_of<T>, diagonal_forward<T>);
  backend.set<DiagonalBackward>(dtype_of<T>, diagonal_backward<T>, diagonal_backward_scratch);
}

}  // namespace

void register_diagonal(Backend& backend, bool /*tf32*/) {
  register_for<float>(backend);
  register_for<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
