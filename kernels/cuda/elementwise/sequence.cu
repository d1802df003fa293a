// Operations of heads on whole sequences: sums in a fixed order, without atomics.

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/elementwise/sequence.h"

namespace comera::COMERA_CUDA {

namespace {

template <class T>
struct MeanOfSequences {
  const T* x;
  const std::int32_t *offsets, *count;
  std::int64_t width;
  T* y;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t s = i / width, column = i % width;
    Values<V> sum{};
    if (s < *count && offsets[s + 1] > offsets[s]) {
      for (std::int32_t t = offsets[s]; t < offsets[s + 1]; ++t) {
        const Values<V> value = load<V>(x + t * width + column);
#pragma unroll
        for (int k = 0; k < V; ++k) sum.at[k] += value.at[k];
      }
      const float length = static_cast<float>(offsets[s + 1] - offsets[s]);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.at[k] /= length;
    }
    store(y + i, sum);
  }
};

template <class T>
void sequence_mean(const SequenceMean& op, const KernelContext& context) {
  each(context.stream,
       MeanOfSequences<T>{op.x.data<T>(), ints(op.offsets), ints(op.count), op.y.dim(1), op.y.data<T>()},
       op.y.elements(), op.y.dim(1));
}

template <class T>
struct MeanOfSequencesGradient {
  const T* dy;
  const std::int32_t *offsets, *count;
  std::int64_t sequences, width;
  T* dx;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t t = i / width;
    // The last sequence that begins at or before t.
    std::int64_t first = 0, last = sequences;
    while (last - first > 1) {
      const std::int64_t middle = (first + last) / 2;
      if (offsets[middle] <= t)
        first = middle;
      else
        last = middle;
    }
    Values<V> value{};
    if (first < *count && t < offsets[first + 1]) {
      value = load<V>(dy + first * width + i % width);
      const float length = static_cast<float>(offsets[first + 1] - offsets[first]);
#pragma unroll
      for (int k = 0; k < V; ++k) value.at[k] /= length;
    }
    store(dx + i, value);
  }
};

template <class T>
void sequence_mean_backward(const SequenceMeanBackward& op, const KernelContext& context) {
  each(context.stream,
       MeanOfSequencesGradient<T>{op.dy.data<T>(), ints(op.offsets), ints(op.count), op.dy.dim(0),
                                  op.dx.dim(1), op.dx.data<T>()},
       op.dx.elements(), op.dx.dim(1));
}

template <class T>
struct PairFeatures {
  const T* x;
  const std::int32_t* count;
  std::int64_t width;
  T* y;

  // i is an index into pairs x width.
  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t e = i / width, column = i % width;
    Values<V> u{}, v{}, distance{}, product{};
    if (e < *count) {
      u = load<V>(x + 2 * e * width + column);
      v = load<V>(x + (2 * e + 1) * width + column);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        distance.at[k] = fabsf(u.at[k] - v.at[k]);
        product.at[k] = u.at[k] * v.at[k];
      }
    }
    T* to = y + 4 * e * width + column;
    store(to, u);
    store(to + width, v);
    store(to + 2 * width, distance);
    store(to + 3 * width, product);
  }
};

template <class T>
void pair_features_forward(const PairFeaturesForward& op, const KernelContext& context) {
  const std::int64_t width = op.x.dim(1);
  each(context.stream, PairFeatures<T>{op.x.data<T>(), ints(op.count), width, op.y.data<T>()},
       op.y.dim(0) * width, width);
}

template <class T>
struct PairFeaturesGradient {
  const T* x;
  const std::int32_t* count;
  const T* dy;
  std::int64_t width;
  T* dx;

  // i is an index into rows x width: u of a pair, then v.
  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t row = i / width, column = i % width, e = row / 2;
    Values<V> gradient{};
    if (e < *count) {
      const float sign_of_own = row % 2 == 0 ? 1.F : -1.F;
      const Values<V> own = load<V>(x + row * width + column),
                      other = load<V>(x + (row ^ 1) * width + column);
      const T* from = dy + 4 * e * width + column;
      const Values<V> direct = load<V>(from + (row % 2) * width), distance = load<V>(from + 2 * width);
      const Values<V> product = load<V>(from + 3 * width);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const float difference = sign_of_own * (own.at[k] - other.at[k]);  // u - v
        const float sign = difference > 0 ? 1.F : difference < 0 ? -1.F : 0.F;
        gradient.at[k] = direct.at[k] + sign_of_own * sign * distance.at[k] + other.at[k] * product.at[k];
      }
    }
    store(dx + i, gradient);
  }
};

template <class T>
void pair_features_backward(const PairFeaturesBackward& op, const KernelContext& context) {
  const std::int64_t width = op.x.dim(1);
  each(context.stream,
       PairFeaturesGradient<T>{op.x.data<T>(), ints(op.count), op.dy.data<T>(), width, op.dx.data<T>()},
       op.x.elements(), width);
}

constexpr int error_threads = 256;

template <class T>
__global__ void __launch_bounds__(error_threads)
    squared_error_kernel(T* predictions, const float* scores, const std::int32_t* count,
                         std::int64_t sequences, bool gradient, StepResults* results) {
  auto* scratch = shared_array<double>(error_threads / warp);
  double loss = 0;
  for (std::int64_t s = threadIdx.x; s < sequences; s += error_threads) {
    const float error = s < *count ? static_cast<float>(predictions[s]) - scores[s] : 0.F;
    loss += static_cast<double>(error) * error;
    if (gradient) predictions[s] = static_cast<T>(2 * error);
  }
  loss = block_sum(loss, scratch);
  if (threadIdx.x > 0) return;
  results->loss_sum += loss;
  results->target_count += *count;
}

template <class T>
void squared_error(const SquaredError& op, const KernelContext& context) {
  COMERA_LAUNCH(
      context.stream,
      (LaunchShape{.threads = error_threads, .shared_bytes = error_threads / warp * sizeof(double)}),
      (squared_error_kernel<T>), op.predictions.data<T>(), op.scores.data<float>(), ints(op.count),
      op.predictions.elements(), op.gradient, static_cast<StepResults*>(op.results.raw()));
}

// One row per block: its squared distance, and its gradient.
template <class T>
__global__ void __launch_bounds__(error_threads)
    squared_distance_rows(T* x, const T* to, const std::int32_t* count, const std::int32_t* targets,
                          std::int64_t width, bool square, double factor, bool gradient, double* losses) {
  auto* scratch = shared_array<double>(error_threads / warp);
  const std::int64_t row = blockIdx.x;
  const bool real = row < *count;
  const double items = square ? static_cast<double>(*count) * *count : static_cast<double>(*count);
  const double weight = real ? factor * *targets / items : 0;
  const auto slope = static_cast<float>(2 * weight);
  double loss = 0;
  for (std::int64_t c = threadIdx.x; c < width; c += error_threads) {
    const std::int64_t at = row * width + c;
    const float difference = real ? static_cast<float>(x[at]) - static_cast<float>(to[at]) : 0.F;
    loss += static_cast<double>(difference) * difference;
    if (gradient) x[at] = static_cast<T>(slope * difference);
  }
  loss = block_sum(loss, scratch);
  if (threadIdx.x == 0) losses[row] = weight * loss;
}

__global__ void __launch_bounds__(error_threads)
    add_losses(const double* losses, std::int64_t rows, const std::int32_t* counted, StepResults* results) {
  auto* scratch = shared_array<double>(error_threads / warp);
  double loss = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += error_threads) loss += losses[r];
  loss = block_sum(loss, scratch);
  if (threadIdx.x > 0) return;
  results->loss_sum += loss;
  if (counted != nullptr) results->target_count += *counted;
}

std::size_t squared_distance_scratch(const SquaredDistance& op) {
  return static_cast<std::size_t>(op.x.dim(0)) * sizeof(double);
}

template <class T>
void squared_distance(const SquaredDistance& op, const KernelContext& context) {
  const std::int64_t rows = op.x.dim(0);
  auto* losses = reinterpret_cast<double*>(context.scratch);
  const LaunchShape one{.threads = error_threads, .shared_bytes = error_threads / warp * sizeof(double)};
  LaunchShape all = one;
  all.grid.x = rows;
  COMERA_LAUNCH(context.stream, all, (squared_distance_rows<T>), op.x.data<T>(), op.to.data<T>(),
                ints(op.count), ints(op.targets), op.x.dim(1), op.square, op.factor, op.gradient, losses);
  COMERA_LAUNCH(context.stream, one, add_losses, losses, rows, op.counts ? ints(op.targets) : nullptr,
                static_cast<StepResults*>(op.results.raw()));
}

// One row per block: its divergence, and its gradient.
template <class T>
__global__ void __launch_bounds__(error_threads)
    relation_rows(const T* x, const T* attended, const T* y, const T* taught_attended, const float* log_sums,
                  const float* taught_log_sums, const T* own_turned, const T* taught_turned,
                  const std::int32_t* count, const std::int32_t* targets, std::int64_t rows,
                  std::int64_t width, std::int64_t taught, std::int64_t heads, double scale,
                  double taught_scale, double factor, T* dx, double* losses) {
  auto* scratch = shared_array<double>(error_threads / warp);
  const std::int64_t row = blockIdx.x;
  const bool real = row < *count;
  const double weight = real ? factor * *targets / static_cast<double>(*count) : 0;
  const auto slope = static_cast<float>(weight * scale);
  double own = 0, of_teacher = 0, sums = 0;
  for (std::int64_t c = threadIdx.x; c < width; c += error_threads) {
    const std::int64_t at = row * width + c;
    if (real) own += static_cast<double>(static_cast<float>(x[at])) * static_cast<float>(attended[at]);
    if (dx == nullptr) continue;
    const float difference =
        real ? (static_cast<float>(dx[at]) - static_cast<float>(attended[at])) +
                   (static_cast<float>(own_turned[at]) - static_cast<float>(taught_turned[at]))
             : 0.F;
    dx[at] = static_cast<T>(slope * difference);
  }
  if (real) {
    for (std::int64_t c = threadIdx.x; c < taught; c += error_threads) {
      const std::int64_t at = row * taught + c;
      of_teacher += static_cast<double>(static_cast<float>(y[at])) * static_cast<float>(taught_attended[at]);
    }
    for (std::int64_t h = threadIdx.x; h < heads; h += error_threads)
      sums += static_cast<double>(taught_log_sums[h * rows + row]) - log_sums[h * rows + row];
  }
  const double loss = block_sum(taught_scale * of_teacher - scale * own - sums, scratch);
  if (threadIdx.x == 0) losses[row] = weight * loss;
}

std::size_t relation_divergence_scratch(const RelationDivergence& op) {
  return static_cast<std::size_t>(op.x.dim(0)) * sizeof(double);
}

template <class T>
void relation_divergence(const RelationDivergence& op, const KernelContext& context) {
  const std::int64_t rows = op.x.dim(0);
  auto* losses = reinterpret_cast<double*>(context.scratch);
  const LaunchShape one{.threads = error_threads, .shared_bytes = error_threads / warp * sizeof(double)};
  LaunchShape all = one;
  all.grid.x = rows;
  COMERA_LAUNCH(context.stream, all, (relation_rows<T>), op.x.data<T>(), op.attended.data<T>(),
                op.y.data<T>(), op.taught_attended.data<T>(), op.log_sums.data<float>(),
                op.taught_log_sums.data<float>(), op.gradient ? op.own_turned.data<T>() : nullptr,
                op.gradient ? op.taught_turned.data<T>() : nullptr, ints(op.count), ints(op.targets), rows,
                op.x.dim(1), op.y.dim(1), op.log_sums.dim(0), op.scale, op.taught_scale, op.factor,
                op.gradient ? op.own_attended.data<T>() : nullptr, losses);
  COMERA_LAUNCH(context.stream, one, add_losses, losses, rows, op.counts ? ints(op.targets) : nullptr,
                static_cast<StepResults*>(op.results.raw()));
}

template <class T>
void register_for(Backend& backend) {
  backend.set<SequenceMean>(dtype_of<T>, sequence_mean<T>);
  backend.set<SequenceMeanBackward>(dtype_of<T>, sequence_mean_backward<T>);
  backend.set<PairFeaturesForward>(dtype_of<T>, pair_features_forward<T>);
  backend.set<PairFeaturesBackward>(dtype_of<T>, pair_features_backward<T>);
  backend.set<SquaredError>(dtype_of<T>, squared_error<T>);
  backend.set<SquaredDistance>(dtype_of<T>, squared_distance<T>, squared_distance_scratch);
  backend.set<RelationDivergence>(dtype_of<T>, relation_divergence<T>, relation_divergence_scratch);
}

}  // namespace

void register_sequence(Backend& backend, bool /*tf32*/) {
  register_for<float>(backend);
  register_for<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
