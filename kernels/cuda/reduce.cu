#include "kernels/cuda/reduce.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int groups = 8;  // of pieces, summed by one warp each

// A block sums 32 columns of one output: each warp every eighth piece, then the warps' sums in order. The
// outputs are read where the launch put them: a copy that is indexed would be in local memory.
__global__ void __launch_bounds__(warp* groups)
    add_partial_sums_kernel(const float* partial, std::int64_t pieces, std::int64_t width,
                            const __grid_constant__ SumOutputs outputs) {
  auto* sums = shared_array<float>(warp * groups);
  const std::int64_t column = std::int64_t{blockIdx.x} * warp + lane_of_thread();
  float sum = 0;
  if (column < width)
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
  const LaunchShape shape{.grid = {blocks_for(width, warp), count},
                          .threads = warp * groups,
                          .shared_bytes = warp * groups * sizeof(float)};
  COMERA_LAUNCH(stream, shape, add_partial_sums_kernel, partial, pieces, width, outputs);
}

}  // namespace comera::COMERA_CUDA
