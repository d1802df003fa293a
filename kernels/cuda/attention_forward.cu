// Packed attention, forward: a running softmax over blocks of keys (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022), whose scores are never
// written.

#include "kernels/cuda/attention.h"
#include "kernels/cuda/kernels.h"

namespace comera::COMERA_CUDA {

namespace {

template <class Math, int D>
inline constexpr std::size_t forward_shared_bytes = (AttentionTiles<Math, D>::own_elements +
                                                     2 * AttentionTiles<Math, D>::other_elements) *
                                                    sizeof(typename Math::Element);

// Block (sequence, head, part): 64 queries.
template <class Math, int D>
__global__ void __launch_bounds__(attention_threads)
    attention_forward_kernel(Attention<typename Math::Element> op) {
  using T = typename Math::Element;
  using Tiles = AttentionTiles<Math, D>;
  constexpr int keys = Tiles::other_rows, stride = Tiles::stride;
  auto* q_tile = shared_array<T>(Tiles::own_elements + 2 * Tiles::other_elements);
  T *k_tile = q_tile + Tiles::own_elements, *v_tile = k_tile + Tiles::other_elements;
  const int sequence = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const std::int64_t begin = op.offsets[sequence];
  if (sequence == op.sequences) {
    clear_padding(op.out, op.heads, begin, op.rows);
    const std::int64_t first = begin + blockIdx.z * attention_threads + threadIdx.x;
    for (std::int64_t row = first; row < op.rows; row += gridDim.z * attention_threads)
      op.log_sum_exp[head * op.rows + row] = 0;
    return;
  }
  const int length = static_cast<int>(op.offsets[sequence + 1] - begin);
  const int first_query = static_cast<int>(blockIdx.z) * own_rows;
  if (first_query >= length) return;
  const int own = first_query + 16 * warp_of_thread();  // this warp's first query

  const bool dropped = op.mask.key != nullptr;
  DropoutKey key{};
  if (dropped) key = *op.mask.key;
  DropoutRow dropout[2] = {{op.mask, key}, {op.mask, key}};
#pragma unroll
  for (int half = 0; half < 2; ++half)
    dropout[half].begin((head * op.rows + begin + own + fragment_row() + 8 * half) * op.longest);

  load_rows<D>(q_tile, op.q, head, false, begin, length, first_query, own_rows);
  const float scale = op.scale * log2_of_e;
  const DistanceBias bias(op, head);
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};  // in powers of 2; this lane's part of the sum
  TileC out[D / 8] = {};
  for (int first_key = 0; first_key < length; first_key += keys) {
    __syncthreads();  // nobody reads the tiles before any more
    load_rows<D>(k_tile, op.k, op.kv_head(head), false, begin, length, first_key, keys);
    load_rows<D>(v_tile, op.v, op.kv_head(head), op.append_one, begin, length, first_key, keys);
    __syncthreads();
    if (own >= length) continue;  // this warp has loaded for the others only
    TileC scores[keys / 8] = {};
#pragma unroll
    for (int d = 0; d < D; d += Math::depth) {
      const auto a = load_a<Math>(q_tile + 16 * warp_of_thread() * stride + d, stride);
#pragma unroll
      for (int n = 0; n < keys / 8; ++n)
        Math::multiply(scores[n], a, load_b_rows<Math>(k_tile + 8 * n * stride + d, stride));
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float here = -INFINITY;
#pragma unroll
      for (int n = 0; n < keys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[n].at[2 * half + i];
          const int place = first_key + 8 * n + fragment_column() + i;
          score = place < length ? score * scale + bias(own + fragment_row() + 8 * half, place) : -INFINITY;
          here = fmaxf(here, score);
        }
      const float now = fmaxf(largest[half], row_max(here));
      const float before = exp2f(largest[half] - now);
      largest[half] = now;
      sum[half] *= before;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        out[n].at[2 * half] *= before;
        out[n].at[2 * half + 1] *= before;
      }
#pragma unroll
      for (int n = 0; n < keys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[n].at[2 * half + i];
          score = exp2f(score - now);
          sum[half] += score;
          if (dropped) score *= dropout[half].factor(first_key + 8 * n + fragment_column() + i);
        }
    }
#pragma unroll
    for (int k = 0; k < keys; k += Math::depth) {
      const auto a = Math::make_a(scores + k / 8);
#pragma unroll
      for (int n = 0; n < D / 8; ++n)
        Math::add_product(out[n], a, load_b_columns<Math>(v_tile + k * stride + 8 * n, stride));
    }
  }
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = row_sum(sum[half]);
    factor[half] = 1 / total;
    const int row = own + fragment_row() + 8 * half;
    if (row < length && fragment_column() == 0)
      op.log_sum_exp[head * op.rows + begin + row] = largest[half] * log_of_2 + logf(total);
  }
  store_rows<D>(op.out, head, begin, length, own, out, factor);
}

template <class Math>
void attention_forward(const AttentionForward& op, const KernelContext& context) {
  if (op.q.dim(0) == 0) return;
  const auto arguments = attention_of<typename Math::Element>(op);
  with_head_size(op, [&](auto size) {
    constexpr int D = decltype(size)::value;
    COMERA_LAUNCH(context.stream,
                  (LaunchShape{.grid = attention_grid(op, op.heads),
                               .threads = attention_threads,
                               .shared_bytes = forward_shared_bytes<Math, D>}),
                  (attention_forward_kernel<Math, D>), arguments);
  });
}

}  // namespace

void register_attention_forward(Backend& backend, bool tf32) {
  backend.set<AttentionForward>(DType::float32,
                                tf32 ? attention_forward<TF32> : attention_forward<SplitTF32>);
  backend.set<AttentionForward>(DType::bfloat16, attention_forward<BF16>);
}

}  // namespace comera::COMERA_CUDA
