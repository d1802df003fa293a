#include "kernels/cuda/products/part_sums.h"

#include <algorithm>

#include "kernels/cuda/products/grouped.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int most_groups = 32;

// A block sums 32 V elements, with its warps alternating over the parts, then adds the warps' sums in order.
template <int V, int most>
__global__ void __launch_bounds__(warp* most_groups)
    add_part_sums_kernel(const Grouped<PartSums, most> __grid_constant__ all) {
  auto* sums = shared_array<float>(std::size_t{blockDim.x} * V);
  const int groups = static_cast<int>(blockDim.x) / warp;
  const auto [op, block] = piece_of_block(all);
  const std::int64_t i = (std::int64_t{block} * warp + lane_of_thread()) * V;
  const bool real = i < std::int64_t{op.rows} * op.columns;
  Values<V> sum{};
  if (real)
#pragma unroll 4
    for (int p = warp_of_thread(); p < op.count; p += groups) {
      const Values<V> part = load<V>(op.parts + p * op.apart + i);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.at[k] += part.at[k];
    }
  store(sums + threadIdx.x * V, sum);
  __syncthreads();
  if (warp_of_thread() > 0 || !real) return;
  for (int group = 1; group < groups; ++group) {
    const Values<V> other = load<V>(sums + (group * warp + lane_of_thread()) * V);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.at[k] += other.at[k];
  }
  float* to = op.to + i / op.columns * op.to_apart + i % op.columns;
  const Values<V> before = load<V>(to);
#pragma unroll
  for (int k = 0; k < V; ++k) sum.at[k] += before.at[k];
  store(to, sum);
}

template <int V>
void add_part_sums_of(const Stream& stream, const std::vector<PartSums>& all) {
  // A warp reads about four parts, all at once.
  std::int64_t groups = 1;
  for (const PartSums& sums : all)
    groups = std::max(groups, std::min(blocks_for(sums.count, 4), std::int64_t{most_groups}));
  launch_grouped(
      all, [](const PartSums& sums) { return blocks_for(std::int64_t{sums.rows} * sums.columns, warp * V); },
      [&]<int most>(const Grouped<PartSums, most>& some, std::int64_t blocks) {
        const LaunchShape shape{.grid = {blocks},
                                .threads = static_cast<int>(warp * groups),
                                .shared_bytes = sizeof(float) * static_cast<std::size_t>(warp * groups * V)};
        COMERA_LAUNCH(stream, shape, (add_part_sums_kernel<V, most>), some);
      });
}

bool by_fours(const PartSums& sums) {
  const auto begins = [](const float* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
  return sums.columns % 4 == 0 && sums.apart % 4 == 0 && sums.to_apart % 4 == 0 && begins(sums.parts) &&
         begins(sums.to);
}

}  // namespace

void add_part_sums(const Stream& stream, const std::vector<PartSums>& all) {
  if (std::ranges::all_of(all, by_fours))
    add_part_sums_of<4>(stream, all);
  else
    add_part_sums_of<1>(stream, all);
}

}  // namespace comera::COMERA_CUDA
