#include "kernels/cuda/part_sums.h"

#include "kernels/cuda/grouped.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int at_once = 4;                  // sums of a lane
constexpr int groups = 8;                   // warps: each has every eighth part
constexpr int block_sums = warp * at_once;  // of a block

template <int most>
__global__ void __launch_bounds__(warp* groups)
    add_part_sums_kernel(const Grouped<PartSums, most> __grid_constant__ all) {
  auto* sums = shared_array<float>(static_cast<std::size_t>(groups) * block_sums);
  const auto [op, block] = piece_of_block(all);
  const std::int64_t i = std::int64_t{block} * block_sums + lane_of_thread() * at_once;
  const bool real = i < std::int64_t{op.rows} * op.columns;
  Values<at_once> sum{};
  if (real)
#pragma unroll 4
    for (int p = warp_of_thread(); p < op.count; p += groups) {
      const Values<at_once> part = load<at_once>(op.parts + p * op.apart + i);
#pragma unroll
      for (int k = 0; k < at_once; ++k) sum.at[k] += part.at[k];
    }
  store(sums + threadIdx.x * at_once, sum);
  __syncthreads();
  if (warp_of_thread() > 0 || !real) return;
  for (int group = 1; group < groups; ++group) {
    const Values<at_once> other = load<at_once>(sums + (group * warp + lane_of_thread()) * at_once);
#pragma unroll
    for (int k = 0; k < at_once; ++k) sum.at[k] += other.at[k];
  }
  float* to = op.to + i / op.columns * op.to_apart + i % op.columns;
  const Values<at_once> before = load<at_once>(to);
#pragma unroll
  for (int k = 0; k < at_once; ++k) sum.at[k] += before.at[k];
  store(to, sum);
}

}  // namespace

void add_part_sums(const Stream& stream, const std::vector<PartSums>& all) {
  launch_grouped(
      all,
      [](const PartSums& sums) { return blocks_for(std::int64_t{sums.rows} * sums.columns, block_sums); },
      [&]<int most>(const Grouped<PartSums, most>& some, std::int64_t blocks) {
        COMERA_LAUNCH(stream, (LaunchShape{{blocks}, warp * groups, sizeof(float) * groups * block_sums}),
                      add_part_sums_kernel<most>, some);
      });
}

}  // namespace comera::COMERA_CUDA
