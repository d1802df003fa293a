// Rows of a tensor-train matrix from its merged halves, and their gradients.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/ops/ttm_rows.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;

struct Halves {
  const float *left, *right;  // (L, nl, rank), (R, rank, nr)
  std::int64_t nl, nr, rank, right_rows;
  const std::int32_t *ids, *count;
};

Halves halves_of(const auto& op) {
  return {op.left.template data<float>(),
          op.right.template data<float>(),
          op.left.dim(1),
          op.right.dim(2),
          op.left.dim(2),
          op.right.dim(0),
          op.ids.template data<std::int32_t>(),
          op.count.template data<std::int32_t>()};
}

// A block computes a row from its two halves, which it keeps in shared memory.
__global__ void __launch_bounds__(threads) ttm_rows_kernel(Halves op, float* rows) {
  const std::int64_t u = blockIdx.x, width = op.nl * op.nr;
  float* row = rows + u * width;
  if (u >= *op.count) {
    for (std::int64_t j = threadIdx.x; j < width; j += threads) row[j] = 0;
    return;
  }
  auto* left = shared_array<float>(static_cast<std::size_t>((op.nl + op.nr) * op.rank));
  float* right = left + op.nl * op.rank;
  const std::int64_t id = op.ids[u];
  const float* from_left = op.left + id / op.right_rows * op.nl * op.rank;
  const float* from_right = op.right + id % op.right_rows * op.rank * op.nr;
  for (std::int64_t j = threadIdx.x; j < op.nl * op.rank; j += threads) left[j] = from_left[j];
  for (std::int64_t j = threadIdx.x; j < op.nr * op.rank; j += threads) right[j] = from_right[j];
  __syncthreads();
  for (std::int64_t j = threadIdx.x; j < width; j += threads) {
    const std::int64_t a = j / op.nr, b = j % op.nr;
    float sum = 0;
    for (std::int64_t k = 0; k < op.rank; ++k) sum += left[a * op.rank + k] * right[k * op.nr + b];
    row[j] = sum;
  }
}

void ttm_rows_forward(const TTMRowsForward& op, const KernelContext& context) {
  const Halves halves = halves_of(op);
  if (op.rows.dim(0) == 0) return;
  const LaunchShape shape{
      .grid = {op.rows.dim(0)},
      .threads = threads,
      .shared_bytes = static_cast<std::size_t>((halves.nl + halves.nr) * halves.rank) * sizeof(float)};
  COMERA_LAUNCH(context.stream, shape, ttm_rows_kernel, halves, op.rows.data<float>());
}

// The first place p in [0, count) with part_of(p) >= wanted; parts do not fall.
template <class PartOf>
__device__ __forceinline__ std::int64_t first_place(std::int64_t count, std::int64_t wanted,
                                                    PartOf&& part_of) {
  std::int64_t begin = 0, end = count;
  while (begin < end) {
    const std::int64_t middle = (begin + end) / 2;
    if (part_of(middle) < wanted)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

// A block has a left half; the rows that use it are neighbours, since ids ascend, and are added in their
// order.
__global__ void __launch_bounds__(threads) ttm_left_gradient(Halves op, const float* drows, float* dleft) {
  const std::int64_t l = blockIdx.x, width = op.nl * op.nr;
  const auto left_of = [&](std::int64_t u) -> std::int64_t { return op.ids[u] / op.right_rows; };
  const std::int64_t begin = first_place(*op.count, l, left_of), end = first_place(*op.count, l + 1, left_of);
  if (begin == end) return;
  for (std::int64_t j = threadIdx.x; j < op.nl * op.rank; j += threads) {
    const std::int64_t a = j / op.rank, k = j % op.rank;
    float sum = 0;
    for (std::int64_t u = begin; u < end; ++u) {
      const float* drow = drows + u * width + a * op.nr;
      const float* right = op.right + (op.ids[u] % op.right_rows * op.rank + k) * op.nr;
      for (std::int64_t b = 0; b < op.nr; ++b) sum += drow[b] * right[b];
    }
    dleft[l * op.nl * op.rank + j] += sum;
  }
}

// A block has a right half; `order` has the rows that use it side by side.
__global__ void __launch_bounds__(threads)
    ttm_right_gradient(Halves op, const std::int32_t* order, const float* drows, float* dright) {
  const std::int64_t r = blockIdx.x, width = op.nl * op.nr;
  const auto right_of = [&](std::int64_t p) -> std::int64_t { return op.ids[order[p]] % op.right_rows; };
  const std::int64_t begin = first_place(*op.count, r, right_of),
                     end = first_place(*op.count, r + 1, right_of);
  if (begin == end) return;
  for (std::int64_t j = threadIdx.x; j < op.rank * op.nr; j += threads) {
    const std::int64_t k = j / op.nr, b = j % op.nr;
    float sum = 0;
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t u = order[p];
      const float* left = op.left + op.ids[u] / op.right_rows * op.nl * op.rank + k;
      for (std::int64_t a = 0; a < op.nl; ++a) sum += left[a * op.rank] * drows[u * width + a * op.nr + b];
    }
    dright[r * op.rank * op.nr + j] += sum;
  }
}

void ttm_rows_backward(const TTMRowsBackward& op, const KernelContext& context) {
  const Halves halves = halves_of(op);
  COMERA_LAUNCH(context.stream, (LaunchShape{.grid = {op.left.dim(0)}, .threads = threads}),
                ttm_left_gradient, halves, op.drows.data<float>(), op.dleft.data<float>());
  COMERA_LAUNCH(context.stream, (LaunchShape{.grid = {op.right.dim(0)}, .threads = threads}),
                ttm_right_gradient, halves, op.right_order.data<std::int32_t>(), op.drows.data<float>(),
                op.dright.data<float>());
}

}  // namespace

void register_ttm_rows(Backend& backend, bool /*tf32*/) {
  backend.set<TTMRowsForward>(DType::float32, ttm_rows_forward);
  backend.set<TTMRowsBackward>(DType::float32, ttm_rows_backward);
}

}  // namespace comera::COMERA_CUDA
