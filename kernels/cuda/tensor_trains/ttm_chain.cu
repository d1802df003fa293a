// Rows of a tensor-train matrix core by core, for each id separately: the simple variants of the lookup,
// which keep each id's intermediate results for its gradient.

#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/ops/tensor_trains/ttm_chain.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 1024;  // in the forward pass, which needs memory for each

struct ChainCore {
  const float *core, *gate;  // (rank before, rows, columns, rank); gate (rank), null for the last core
  float *dcore, *dgate;
  std::int64_t rank_before, rows, columns, rank;
  std::int64_t id_divisor;  // digit = id / id_divisor % rows
  std::int64_t prefix;      // columns of all cores up to this one
  std::int64_t place;       // offset of Z_k (prefix, rank) in an id's memory
};

struct Chain {
  int cores = 0;
  ChainCore at[max_ttm_cores];
  const std::int32_t *ids = nullptr, *count = nullptr;
  std::int64_t width = 0;
  std::int64_t room = 0;  // floats of an id's Z_1 … Z_{K-1}
  float* z = nullptr;     // memory per block, or per id
  float* dz = nullptr;    // the same for gradients by Z_k D_k
};

template <class Operation>
Chain chain_of(const Operation& op) {
  Chain chain;
  chain.cores = op.cores;
  chain.ids = op.ids.template data<std::int32_t>();
  chain.count = op.count.template data<std::int32_t>();
  std::int64_t prefix = 1;
  for (int k = 0; k < op.cores; ++k) {
    const Tensor& core = op.core[k];
    const bool last = k + 1 == op.cores;
    prefix *= core.dim(2);
    chain.at[k] = {.core = core.template data<float>(),
                   .gate = last ? nullptr : op.gate[k].template data<float>(),
                   .dcore = nullptr,
                   .dgate = nullptr,
                   .rank_before = core.dim(0),
                   .rows = core.dim(1),
                   .columns = core.dim(2),
                   .rank = core.dim(3),
                   .id_divisor = 1,
                   .prefix = prefix,
                   .place = chain.room};
    if (!last) chain.room += prefix * core.dim(3);
  }
  chain.width = prefix;
  for (int k = op.cores - 1; k > 0; --k)
    chain.at[k - 1].id_divisor = chain.at[k].id_divisor * chain.at[k].rows;
  return chain;
}

// Z_1 … Z_{K-1} of an id into its memory and Z_K into its row, by the whole block.
__device__ __forceinline__ void run_chain(const Chain& chain, std::int64_t id, float* z, float* row) {
  for (int k = 0; k < chain.cores; ++k) {
    const ChainCore& core = chain.at[k];
    const float* slice = core.core + id / core.id_divisor % core.rows * core.columns * core.rank;
    const std::int64_t stride = core.rows * core.columns * core.rank;  // from rank to rank before
    const float* before = k > 0 ? z + chain.at[k - 1].place : nullptr;
    float* to = k + 1 < chain.cores ? z + core.place : row;
    if (to == nullptr) return;
    for (std::int64_t e = threadIdx.x; e < core.prefix * core.rank; e += threads) {
      const std::int64_t inner = e % (core.columns * core.rank), m = e / (core.columns * core.rank);
      float sum = 0;
      if (before == nullptr)
        sum = slice[inner];
      else
        for (std::int64_t a = 0; a < core.rank_before; ++a)
          sum += before[m * core.rank_before + a] * chain.at[k - 1].gate[a] * slice[a * stride + inner];
      to[e] = sum;
    }
    __syncthreads();  // the next core reads what other threads wrote
  }
}

__global__ void __launch_bounds__(threads)
    ttm_chain_kernel(const Chain __grid_constant__ chain, std::int64_t rows, float* out) {
  for (std::int64_t u = blockIdx.x; u < rows; u += gridDim.x) {
    float* row = out + u * chain.width;
    if (u < *chain.count)
      run_chain(chain, chain.ids[u], chain.z + blockIdx.x * chain.room, row);
    else
      for (std::int64_t e = threadIdx.x; e < chain.width; e += threads) row[e] = 0;
  }
}

std::int64_t forward_blocks(const TTMChainForward& op) { return std::min(op.rows.dim(0), most_blocks); }

std::size_t ttm_chain_forward_scratch(const TTMChainForward& op) {
  return static_cast<std::size_t>(forward_blocks(op) * chain_of(op).room) * sizeof(float);
}

void ttm_chain_forward(const TTMChainForward& op, const KernelContext& context) {
  if (op.rows.dim(0) == 0) return;
  Chain chain = chain_of(op);
  chain.z = reinterpret_cast<float*>(context.scratch);
  COMERA_LAUNCH(context.stream, (LaunchShape{.grid = {forward_blocks(op)}, .threads = threads}),
                ttm_chain_kernel, chain, op.rows.dim(0), op.rows.data<float>());
}

// Block u: recomputes the id's Z, then the gradients by Z_k D_k from the last to the first.
__global__ void __launch_bounds__(threads)
    ttm_chain_gradients(const Chain __grid_constant__ chain, const float* drows) {
  const std::int64_t u = blockIdx.x;
  if (u >= *chain.count) return;
  const std::int64_t id = chain.ids[u];
  float* dz = chain.dz + u * chain.room;
  run_chain(chain, id, chain.z + u * chain.room, nullptr);
  for (int k = chain.cores - 1; k > 0; --k) {
    const ChainCore &core = chain.at[k], &before = chain.at[k - 1];
    const float* slice = core.core + id / core.id_divisor % core.rows * core.columns * core.rank;
    const std::int64_t stride = core.rows * core.columns * core.rank, inner = core.columns * core.rank;
    const float* from = k + 1 < chain.cores ? dz + core.place : drows + u * chain.width;
    for (std::int64_t e = threadIdx.x; e < before.prefix * before.rank; e += threads) {
      const std::int64_t m = e / before.rank, a = e % before.rank;
      float sum = 0;
      for (std::int64_t i = 0; i < inner; ++i) {
        const float gate = core.gate != nullptr ? core.gate[i % core.rank] : 1;
        sum += from[m * inner + i] * gate * slice[a * stride + i];
      }
      dz[before.place + e] = sum;
    }
    __syncthreads();
  }
}

// Block (digit, part, core): a slice's gradient, summed over the ids with that digit in their order.
__global__ void __launch_bounds__(threads)
    ttm_chain_core_gradient(const Chain __grid_constant__ chain, const float* drows) {
  const int k = static_cast<int>(blockIdx.z);
  const ChainCore& core = chain.at[k];
  const std::int64_t digit = blockIdx.x;
  if (digit >= core.rows) return;
  const std::int64_t inner = core.columns * core.rank, before = core.rank_before;
  const std::int64_t prefix = core.prefix / core.columns, count = *chain.count;
  const float* gate = core.gate;
  for (std::int64_t e = std::int64_t{blockIdx.y} * threads + threadIdx.x; e < before * inner;
       e += std::int64_t{gridDim.y} * threads) {
    const std::int64_t a = e / inner, i = e % inner;
    float sum = 0;
    for (std::int64_t u = 0; u < count; ++u) {
      if (chain.ids[u] / core.id_divisor % core.rows != digit) continue;
      const float* z = k > 0 ? chain.z + u * chain.room + chain.at[k - 1].place : nullptr;
      const float* dz = gate != nullptr ? chain.dz + u * chain.room + core.place : drows + u * chain.width;
      float here = 0;
      for (std::int64_t m = 0; m < prefix; ++m)
        here += (z != nullptr ? z[m * before + a] * chain.at[k - 1].gate[a] : 1.F) * dz[m * inner + i];
      sum += here;
    }
    if (gate != nullptr) sum *= gate[i % core.rank];
    core.dcore[(a * core.rows + digit) * inner + i] += sum;
  }
}

// Block (entry, core): the gradient of one entry of a gate.
__global__ void __launch_bounds__(threads) ttm_chain_gate_gradient(const Chain __grid_constant__ chain) {
  auto* sums = shared_array<float>(threads / warp);
  const ChainCore& core = chain.at[blockIdx.y];
  const std::int64_t c = blockIdx.x;
  if (c >= core.rank) return;
  const std::int64_t items = *chain.count * core.prefix;
  float sum = 0;
  for (std::int64_t item = threadIdx.x; item < items; item += threads) {
    const std::int64_t place =
        item / core.prefix * chain.room + core.place + item % core.prefix * core.rank + c;
    sum += chain.z[place] * chain.dz[place];
  }
  sum = block_sum(sum, sums);
  if (threadIdx.x == 0) core.dgate[c] += sum;
}

std::size_t ttm_chain_backward_scratch(const TTMChainBackward& op) {
  return static_cast<std::size_t>(2 * op.drows.dim(0) * chain_of(op).room) * sizeof(float);
}

void ttm_chain_backward(const TTMChainBackward& op, const KernelContext& context) {
  const std::int64_t rows = op.drows.dim(0);
  if (rows == 0) return;
  Chain chain = chain_of(op);
  chain.z = reinterpret_cast<float*>(context.scratch);
  chain.dz = chain.z + rows * chain.room;
  std::int64_t most_rows = 1, most_elements = 1, most_rank = 1;
  for (int k = 0; k < op.cores; ++k) {
    ChainCore& core = chain.at[k];
    core.dcore = op.dcore[k].data<float>();
    most_rows = std::max(most_rows, core.rows);
    most_elements = std::max(most_elements, core.rank_before * core.columns * core.rank);
    if (k + 1 == op.cores) continue;
    core.dgate = op.dgate[k].data<float>();
    most_rank = std::max(most_rank, core.rank);
  }
  const auto* drows = op.drows.data<float>();
  COMERA_LAUNCH(context.stream, (LaunchShape{.grid = {rows}, .threads = threads}), ttm_chain_gradients, chain,
                drows);
  const std::int64_t parts = std::min<std::int64_t>(blocks_for(most_elements, threads), 1024);
  COMERA_LAUNCH(context.stream, (LaunchShape{.grid = {most_rows, parts, op.cores}, .threads = threads}),
                ttm_chain_core_gradient, chain, drows);
  if (op.cores > 1)
    COMERA_LAUNCH(context.stream,
                  (LaunchShape{.grid = {most_rank, op.cores - 1},
                               .threads = threads,
                               .shared_bytes = threads / warp * sizeof(float)}),
                  ttm_chain_gate_gradient, chain);
}

}  // namespace

void register_ttm_chain(Backend& backend, bool /*tf32*/) {
  backend.set<TTMChainForward>(DType::float32, ttm_chain_forward, ttm_chain_forward_scratch);
  backend.set<TTMChainBackward>(DType::float32, ttm_chain_backward, ttm_chain_backward_scratch);
}

}  // namespace comera::COMERA_CUDA
