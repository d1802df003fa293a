#include "kernels/cuda/reduce.h"

#include <algorithm>

namespace comera::COMERA_CUDA {

namespace {

// A block sums 32 columns of one output: each of its warps every so many-th piece, then the warps' sums in
// order. The outputs are read where the launch put them: a copy that is indexed would be in local memory.
__global__ void __launch_bounds__(1024)
    add_partial_sums_kernel(const float* partial, std::int64_t pieces, std::int64_t width,
                            const SumOutputs __grid_constant__ outputs) {
  auto* sums = shared_array<float>(blockDim.x);
  const int groups = static_cast<int>(blockDim.x) / warp;
  const std::int64_t column = std::int64_t{blockIdx.x} * warp + lane_of_thread();
  float sum = 0;
  if (column < width)
#pragma unroll 4
    for (std::int64_t p = warp_of_thread(); p < pieces; p += groups)
      sum += partial[(p * gridDim.y + blockIdx.y) * width + column];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp_of_thread() > 0 || column >= width) return;
  for (int group = 1; group < groups; ++group) sum += sums[group * warp + threadIdx.x];
  outputs.at[blockIdx.y][column] += sum;
}

}  // namespace

void add_partial_sums(const Stream& stream, const float* partial, std::int64_t pieces, std::int64_t width,
                      int count, const SumOutputs& outputs) {
  // A warp reads about four pieces, which it does at once.
  constexpr std::int64_t most_groups = 32;
  const auto groups = static_cast<int>(std::min(blocks_for(pieces, 4), most_groups));
  const LaunchShape shape{.grid = {blocks_for(width, warp), count},
                          .threads = warp * groups,
                          .shared_bytes = sizeof(float) * static_cast<std::size_t>(warp * groups)};
  COMERA_LAUNCH(stream, shape, add_partial_sums_kernel, partial, pieces, width, outputs);
}

}  // namespace comera::COMERA_CUDA
