// Operations of click models besides linear layers and tables: sums in a fixed order, without atomics.

#include "kernels/cuda/each.h"
#include "kernels/cuda/elementwise/activations.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/elementwise/clicks.h"

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

// F + 1 vectors of each example, the first one in separate memory.
template <class T>
struct Vectors {
  T *first, *others;
  std::int64_t examples;
  int count, width;  // F + 1, D

  // Vector i of the block's example.
  __device__ __forceinline__ T* of(int i) const {
    return i == 0 ? first + std::int64_t{blockIdx.x} * width
                  : others + ((i - 1) * examples + blockIdx.x) * width;
  }
};
template <class T>
Vectors<T> vectors_in(const Tensor& first, const Tensor& others) {
  return {first.data<T>(), others.data<T>(), first.dim(0), static_cast<int>(others.dim(0)) + 1,
          static_cast<int>(first.dim(1))};
}

// The vectors of one example in shared memory, with rows padded by one element, so that different vectors
// begin in different banks.
template <class T>
__device__ __forceinline__ void load_example(const Vectors<T>& x, float* to) {
  for (int k = static_cast<int>(threadIdx.x); k < x.count * x.width; k += pair_threads)
    to[k / x.width * (x.width + 1) + k % x.width] = static_cast<float>(x.of(k / x.width)[k % x.width]);
}

// Pair p of (1, 0), (2, 0), (2, 1), (3, 0), …
struct Pair {
  int i, j;
};
__device__ __forceinline__ Pair pair_of(int p) {
  int i = static_cast<int>((1 + sqrtf(1 + 8 * static_cast<float>(p))) / 2);  // possibly off by one
  if (i * (i - 1) / 2 > p) --i;
  if (i * (i + 1) / 2 <= p) ++i;
  return {i, p - i * (i - 1) / 2};
}

template <class T>
__global__ void __launch_bounds__(pair_threads) dot_interaction_kernel(Vectors<T> x, T* y) {
  auto* own = shared_array<float>(x.count * (x.width + 1));
  load_example(x, own);
  __syncthreads();
  const int pairs = x.count * (x.count - 1) / 2;
  T* to = y + std::int64_t{blockIdx.x} * (x.width + pairs);
  for (int d = static_cast<int>(threadIdx.x); d < x.width; d += pair_threads) to[d] = static_cast<T>(own[d]);
  for (int p = static_cast<int>(threadIdx.x); p < pairs; p += pair_threads) {
    const Pair pair = pair_of(p);
    const float *a = own + pair.i * (x.width + 1), *b = own + pair.j * (x.width + 1);
    float sum = 0;
    for (int d = 0; d < x.width; ++d) sum += a[d] * b[d];
    to[x.width + p] = static_cast<T>(sum);
  }
}

// An example's vectors have to fit into a block's shared memory, at most that of a Hopper GPU.
LaunchShape example_shape(const Tensor& first, std::int64_t vectors, std::int64_t products) {
  constexpr std::size_t most = std::size_t{227} << 10;
  const std::size_t bytes = static_cast<std::size_t>(vectors * (first.dim(1) + 1) + products) * sizeof(float);
  COMERA_CHECK(bytes <= most,
               "the dot products of {} vectors of width {} need {} KiB of a GPU's shared memory, of which a "
               "block has {} at most: use narrower or fewer tables, or the CPU",
               vectors, first.dim(1), bytes >> 10, most >> 10);
  return {.grid = {first.dim(0)}, .threads = pair_threads, .shared_bytes = bytes};
}

template <class T>
void dot_interaction_forward(const DotInteractionForward& op, const KernelContext& context) {
  if (op.first.dim(0) == 0) return;
  COMERA_LAUNCH(context.stream, example_shape(op.first, op.others.dim(0) + 1, 0), (dot_interaction_kernel<T>),
                vectors_in<T>(op.first, op.others), op.y.data<T>());
}

template <class T>
__global__ void __launch_bounds__(pair_threads)
    dot_interaction_backward_kernel(Vectors<T> x, const T* dy, Vectors<T> dx) {
  auto* own = shared_array<float>(x.count * (x.width + 1) + x.count * x.count);
  float* products = own + x.count * (x.width + 1);  // gradients of x_i·x_j
  load_example(x, own);
  const int pairs = x.count * (x.count - 1) / 2;
  const T* from = dy + std::int64_t{blockIdx.x} * (x.width + pairs);
  for (int p = static_cast<int>(threadIdx.x); p < pairs; p += pair_threads) {
    const Pair pair = pair_of(p);
    products[pair.i * x.count + pair.j] = products[pair.j * x.count + pair.i] =
        static_cast<float>(from[x.width + p]);
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < x.count * x.width; k += pair_threads) {
    const int i = k / x.width, d = k % x.width;
    float sum = i == 0 ? static_cast<float>(from[d]) : 0.F;
    for (int j = 0; j < x.count; ++j)
      if (j != i) sum += products[i * x.count + j] * own[j * (x.width + 1) + d];
    dx.of(i)[d] = static_cast<T>(sum);
  }
}

template <class T>
void dot_interaction_backward(const DotInteractionBackward& op, const KernelContext& context) {
  if (op.first.dim(0) == 0) return;
  const std::int64_t vectors = op.others.dim(0) + 1;
  COMERA_LAUNCH(context.stream, example_shape(op.first, vectors, vectors * vectors),
                (dot_interaction_backward_kernel<T>), vectors_in<T>(op.first, op.others), op.dy.data<T>(),
                vectors_in<T>(op.dfirst, op.dothers));
}

constexpr int loss_threads = 1024;

template <class T>
__global__ void __launch_bounds__(loss_threads)
    binary_cross_entropy_kernel(T* logits, const float* labels, const std::int32_t* count,
                                const std::int32_t* targets, double factor, std::int64_t examples,
                                bool gradient, StepResults* results) {
  auto* scratch = shared_array<double>(loss_threads / warp);
  if (targets != nullptr) factor *= static_cast<double>(*targets) / max(*count, 1);
  const auto weight = static_cast<float>(factor);
  double loss = 0, correct = 0, replaced = 0, found = 0;
  for (std::int64_t b = threadIdx.x; b < examples; b += loss_threads) {
    const bool real = b < *count;
    const float z = real ? static_cast<float>(logits[b]) : 0.F, label = real ? labels[b] : 0.F;
    const float small = expf(-fabsf(z));  // to avoid overflow
    if (real) {
      loss += static_cast<double>((z > 0 ? z : 0) - z * label + log1pf(small));
      const bool positive = label > 0.5F, right = (z > 0) == positive;
      correct += right ? 1 : 0;
      replaced += positive ? 1 : 0;
      found += positive && right ? 1 : 0;
    }
    if (gradient)
      logits[b] = static_cast<T>(real ? weight * ((z > 0 ? 1 : small) / (1 + small) - label) : 0.F);
  }
  loss = block_sum(loss, scratch);
  correct = block_sum(correct, scratch);
  if (targets != nullptr) {
    replaced = block_sum(replaced, scratch);
    found = block_sum(found, scratch);
  }
  if (threadIdx.x > 0) return;
  results->loss_sum += factor * loss;
  if (targets == nullptr) {
    results->target_count += *count;
    results->correct += correct;
    return;
  }
  DetectionResults& detection = results->detection;
  detection.loss_sum += loss;
  detection.weighed += factor * loss;
  detection.tokens += *count;
  detection.correct += correct;
  detection.replaced += replaced;
  detection.found += found;
}

template <class T>
void binary_cross_entropy(const BinaryCrossEntropy& op, const KernelContext& context) {
  COMERA_LAUNCH(context.stream,
                (LaunchShape{.threads = loss_threads, .shared_bytes = loss_threads / warp * sizeof(double)}),
                (binary_cross_entropy_kernel<T>), op.logits.data<T>(), op.labels.data<float>(),
                ints(op.count), op.targets ? ints(op.targets) : nullptr, op.targets ? op.factor : 1.0,
                op.logits.elements(), op.gradient, static_cast<StepResults*>(op.results.raw()));
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
