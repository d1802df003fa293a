// Ids between a generator and a discriminator. Ids are sorted by counting for each how many come before it:
// T² comparisons in shared memory, in one launch without scratch, which for the tokens of a micro-batch is
// less than the passes of a radix sort.

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/lookups/replaced_tokens.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;

struct TokensReplaced {
  static constexpr int at_once = 1;
  const std::int32_t *token_ids, *positions, *targets, *drawn, *count;
  std::int32_t* y;
  float* replaced;

  template <int V>
  __device__ void run(std::int64_t i) const {
    std::int32_t begin = 0, end = *count;  // of the positions that may be i
    while (begin < end) {
      const std::int32_t middle = (begin + end) / 2;
      if (positions[middle] < i)
        begin = middle + 1;
      else
        end = middle;
    }
    const bool masked = begin < *count && positions[begin] == i;
    y[i] = masked ? drawn[begin] : token_ids[i];
    replaced[i] = masked && drawn[begin] != targets[begin] ? 1.F : 0.F;
  }
};

void replace_tokens(const ReplaceTokens& op, const KernelContext& context) {
  each(context.stream,
       TokensReplaced{ints(op.token_ids), ints(op.positions), ints(op.targets), ints(op.drawn),
                      ints(op.count), op.y.data<std::int32_t>(), op.replaced.data<float>()},
       op.token_ids.elements(), 1);
}

// order[place of i] = i for each i below the count, by (id % modulus, i); 0 beyond the count.
__global__ void __launch_bounds__(threads)
    sort_kernel(const std::int32_t* ids, const std::int32_t* count, std::int64_t all, std::int32_t modulus,
                std::int32_t* order) {
  auto* keys = shared_array<std::int32_t>(threads);
  const std::int32_t real = *count;
  const std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const auto key = [&](std::int64_t at) { return modulus > 0 ? ids[at] % modulus : ids[at]; };
  const std::int32_t own = i < real ? key(i) : 0;
  std::int32_t place = 0;
  for (std::int32_t first = 0; first < real; first += threads) {
    __syncthreads();
    if (first + static_cast<std::int32_t>(threadIdx.x) < real) keys[threadIdx.x] = key(first + threadIdx.x);
    __syncthreads();
    const std::int32_t some = min(threads, real - first);
    for (std::int32_t k = 0; k < some; ++k)
      place += keys[k] < own || (keys[k] == own && first + k < i) ? 1 : 0;
  }
  if (i < real)
    order[place] = static_cast<std::int32_t>(i);
  else if (i < all)
    order[i] = 0;
}

struct Unique {
  const std::int32_t *ids, *count, *order;
  std::int64_t tokens, room;  // T, U
  std::int32_t *ids_of, *found, *index, *offsets, *right;
};

// One block: the distinct ids of the sorted ones. Each thread owns a run of them.
__global__ void __launch_bounds__(threads) unique_kernel(Unique op) {
  auto* begins = shared_array<std::int32_t>(threads + 1);
  const std::int32_t real = *op.count, thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t each = (real + threads - 1) / threads;
  const std::int32_t first = min(thread * each, real), last = min(first + each, real);
  const auto begins_here = [&](std::int32_t i) {
    return i == 0 || op.ids[op.order[i]] != op.ids[op.order[i - 1]];
  };
  std::int32_t own = 0;
  for (std::int32_t i = first; i < last; ++i) own += begins_here(i) ? 1 : 0;
  begins[thread + 1] = own;
  __syncthreads();
  if (thread == 0) {
    begins[0] = 0;
    for (int t = 0; t < threads; ++t) begins[t + 1] += begins[t];
    *op.found = begins[threads];
  }
  __syncthreads();
  std::int32_t next = begins[thread];
  for (std::int32_t i = first; i < last; ++i) {
    const std::int32_t row = op.order[i];
    if (begins_here(i)) {
      op.offsets[next] = i;
      op.ids_of[next++] = op.ids[row];
    }
    op.index[row] = next - 1;
  }
  const std::int32_t found = begins[threads];
  for (std::int64_t t = real + thread; t < op.tokens; t += threads) op.index[t] = 0;
  for (std::int64_t u = found + thread; u <= op.room; u += threads) op.offsets[u] = real;
  for (std::int64_t u = found + thread; u < op.room; u += threads) op.ids_of[u] = 0;
  if (op.right == nullptr) return;
  for (std::int64_t u = thread; u < op.room; u += threads)
    op.right[u] = u < found ? static_cast<std::int32_t>(u) : 0;
}

void order_ids(const OrderIds& op, const KernelContext& context) {
  const std::int64_t tokens = op.ids.elements(), room = op.unique_ids.elements();
  auto* order = op.unique_order.data<std::int32_t>();
  auto* right = op.right_order.data<std::int32_t>();
  const auto sort = [&](const Tensor& ids, const Tensor& count, std::int32_t modulus, std::int32_t* to) {
    if (ids.elements() == 0) return;
    COMERA_LAUNCH(context.stream,
                  (LaunchShape{.grid = {blocks_for(ids.elements(), threads)},
                               .threads = threads,
                               .shared_bytes = threads * sizeof(std::int32_t)}),
                  sort_kernel, ints(ids), ints(count), ids.elements(), modulus, to);
  };
  sort(op.ids, op.count, 0, order);
  COMERA_LAUNCH(context.stream,
                (LaunchShape{.threads = threads, .shared_bytes = (threads + 1) * sizeof(std::int32_t)}),
                unique_kernel,
                (Unique{.ids = ints(op.ids),
                        .count = ints(op.count),
                        .order = order,
                        .tokens = tokens,
                        .room = room,
                        .ids_of = op.unique_ids.data<std::int32_t>(),
                        .found = op.unique_count.data<std::int32_t>(),
                        .index = op.unique_index.data<std::int32_t>(),
                        .offsets = op.unique_offsets.data<std::int32_t>(),
                        .right = op.right_rows > 0 ? nullptr : right}));
  if (op.right_rows > 0)
    sort(op.unique_ids, op.unique_count, static_cast<std::int32_t>(op.right_rows), right);
}

}  // namespace

void register_replaced_tokens(Backend& backend, bool /*tf32*/) {
  backend.set<ReplaceTokens>(DType::float32, replace_tokens);
  backend.set<OrderIds>(DType::float32, order_ids);
}

}  // namespace comera::COMERA_CUDA
