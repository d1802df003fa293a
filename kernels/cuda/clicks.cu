// What click models need beside linear layers and tables: sums in a fixed order, without atomics.

#include "kernels/cuda/activations.h"
#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/clicks.h"

namespace comera::COMERA_CUDA {

namespace {

template <class T>
struct BagsDivided {
  T* x;
  const std::int32_t* offsets;
  std::int64_t width;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t b = i / width;
    const std::int32_t ids = offsets[b + 1] - offsets[b];
    if (ids < 2) return;
    Values<V> value = load<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) value.at[k] /= static_cast<float>(ids);
    store(x + i, value);
  }
};

template <class T>
void divide_bags(const DivideBags& op, const KernelContext& context) {
  each(context.stream, BagsDivided<T>{op.x.data<T>(), ints(op.offsets), op.x.dim(1)}, op.x.elements(),
       op.x.dim(1));
}

constexpr int pair_threads = 128;

// The vectors of one example in shared memory, in rows of one more number, so that different vectors begin in
// different banks.
template <class T>
__device__ __forceinline__ void load_example(const T* x, int vectors, std::int64_t examples, int width,
                                             float* to) {
  for (int k = static_cast<int>(threadIdx.x); k < vectors * width; k += pair_threads)
    to[k / width * (width + 1) + k % width] =
        static_cast<float>(x[(k / width * examples + blockIdx.x) * width + k % width]);
}

// Pair p of (1, 0), (2, 0), (2, 1), (3, 0), …
struct Pair {
  int i, j;
};
__device__ __forceinline__ Pair pair_of(int p) {
  int i = static_cast<int>((1 + sqrtf(1 + 8 * static_cast<float>(p))) / 2);  // perhaps one off
  if (i * (i - 1) / 2 > p) --i;
  if (i * (i + 1) / 2 <= p) ++i;
  return {i, p - i * (i - 1) / 2};
}

template <class T>
__global__ void __launch_bounds__(pair_threads)
    dot_interaction_kernel(const T* x, int vectors, std::int64_t examples, int width, T* y) {
  auto* own = shared_array<float>(vectors * (width + 1));
  load_example(x, vectors, examples, width, own);
  __syncthreads();
  const int pairs = vectors * (vectors - 1) / 2;
  T* to = y + std::int64_t{blockIdx.x} * (width + pairs);
  for (int d = static_cast<int>(threadIdx.x); d < width; d += pair_threads) to[d] = static_cast<T>(own[d]);
  for (int p = static_cast<int>(threadIdx.x); p < pairs; p += pair_threads) {
    const Pair pair = pair_of(p);
    const float *a = own + pair.i * (width + 1), *b = own + pair.j * (width + 1);
    float sum = 0;
    for (int d = 0; d < width; ++d) sum += a[d] * b[d];
    to[width + p] = static_cast<T>(sum);
  }
}

template <class T>
void dot_interaction_forward(const DotInteractionForward& op, const KernelContext& context) {
  if (op.x.dim(1) == 0) return;
  const auto vectors = static_cast<int>(op.x.dim(0)), width = static_cast<int>(op.x.dim(2));
  COMERA_LAUNCH(
      context.stream,
      (LaunchShape{.grid = {op.x.dim(1)},
                   .threads = pair_threads,
                   .shared_bytes = static_cast<std::size_t>(vectors * (width + 1)) * sizeof(float)}),
      (dot_interaction_kernel<T>), op.x.data<T>(), vectors, op.x.dim(1), width, op.y.data<T>());
}

template <class T>
__global__ void __launch_bounds__(pair_threads)
    dot_interaction_backward_kernel(const T* x, const T* dy, int vectors, std::int64_t examples, int width,
                                    T* dx) {
  auto* own = shared_array<float>(vectors * (width + 1) + vectors * vectors);
  float* products = own + vectors * (width + 1);  // gradients of x_i·x_j, (F, F)
  load_example(x, vectors, examples, width, own);
  const int pairs = vectors * (vectors - 1) / 2;
  const T* from = dy + std::int64_t{blockIdx.x} * (width + pairs);
  for (int p = static_cast<int>(threadIdx.x); p < pairs; p += pair_threads) {
    const Pair pair = pair_of(p);
    products[pair.i * vectors + pair.j] = products[pair.j * vectors + pair.i] =
        static_cast<float>(from[width + p]);
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < vectors * width; k += pair_threads) {
    const int i = k / width, d = k % width;
    float sum = i == 0 ? static_cast<float>(from[d]) : 0.F;
    for (int j = 0; j < vectors; ++j)
      if (j != i) sum += products[i * vectors + j] * own[j * (width + 1) + d];
    dx[(i * examples + blockIdx.x) * width + d] = static_cast<T>(sum);
  }
}

template <class T>
void dot_interaction_backward(const DotInteractionBackward& op, const KernelContext& context) {
  if (op.x.dim(1) == 0) return;
  const auto vectors = static_cast<int>(op.x.dim(0)), width = static_cast<int>(op.x.dim(2));
  COMERA_LAUNCH(context.stream,
                (LaunchShape{.grid = {op.x.dim(1)},
                             .threads = pair_threads,
                             .shared_bytes =
                                 static_cast<std::size_t>(vectors * (width + 1 + vectors)) * sizeof(float)}),
                (dot_interaction_backward_kernel<T>), op.x.data<T>(), op.dy.data<T>(), vectors, op.x.dim(1),
                width, op.dx.data<T>());
}

constexpr int loss_threads = 1024;

template <class T>
__global__ void __launch_bounds__(loss_threads)
    binary_cross_entropy_kernel(T* logits, const float* labels, const std::int32_t* count,
                                std::int64_t examples, bool gradient, StepResults* results) {
  auto* scratch = shared_array<double>(loss_threads / warp);
  double loss = 0, correct = 0;
  for (std::int64_t b = threadIdx.x; b < examples; b += loss_threads) {
    const bool real = b < *count;
    const float z = real ? static_cast<float>(logits[b]) : 0.F, label = real ? labels[b] : 0.F;
    const float small = expf(-fabsf(z));  // so that nothing overflows
    if (real) {
      loss += static_cast<double>((z > 0 ? z : 0) - z * label + log1pf(small));
      correct += (z > 0) == (label > 0.5F) ? 1 : 0;
    }
    if (gradient) logits[b] = static_cast<T>(real ? (z > 0 ? 1 : small) / (1 + small) - label : 0.F);
  }
  loss = block_sum(loss, scratch);
  __syncthreads();
  correct = block_sum(correct, scratch);
  if (threadIdx.x > 0) return;
  results->loss_sum += loss;
  results->target_count += *count;
  results->correct += correct;
}

template <class T>
void binary_cross_entropy(const BinaryCrossEntropy& op, const KernelContext& context) {
  COMERA_LAUNCH(context.stream,
                (LaunchShape{.threads = loss_threads, .shared_bytes = loss_threads / warp * sizeof(double)}),
                (binary_cross_entropy_kernel<T>), op.logits.data<T>(), op.labels.data<float>(),
                ints(op.count), op.logits.elements(), op.gradient,
                static_cast<StepResults*>(op.results.raw()));
}

template <class T>
void register_for(Backend& backend) {
  backend.set<DivideBags>(dtype_of<T>, divide_bags<T>);
  backend.set<DotInteractionForward>(dtype_of<T>, dot_interaction_forward<T>);
  backend.set<DotInteractionBackward>(dtype_of<T>, dot_interaction_backward<T>);
  backend.set<BinaryCrossEntropy>(dtype_of<T>, binary_cross_entropy<T>);
}

}  // namespace

void register_clicks(Backend& backend, bool /*tf32*/) {
  register_for<float>(backend);
  register_for<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
