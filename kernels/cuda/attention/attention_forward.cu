// Packed attention, forward: an online softmax over blocks of keys (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022), whose scores are never
// written to memory.

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/kernels.h"

namespace comera::COMERA_CUDA {

namespace {

template <class Math, int D>
inline constexpr std::size_t forward_elements =
    AttentionTiles<Math, D>::own_rows* AttentionTiles<Math, D>::stride +
    2 * AttentionTiles<Math, D>::other_elements;

// Block (sequence, head, part of the queries).
template <class Math, int D>
__global__ void __launch_bounds__((AttentionTiles<Math, D>::threads), AttentionTiles<Math, D>::narrow ? 2 : 1)
    attention_forward_kernel(Attention<typename Math::Element> op) {
  using T = typename Math::Element;
  using Tiles = AttentionTiles<Math, D>;
  constexpr int keys = Tiles::other_rows, group = Tiles::group, stride = Tiles::stride;
  using KeyOrder = PermutedKeyOrder<group>;
  auto* q_tile = shared_array<T>(forward_elements<Math, D>);
  T *k_tile = q_tile + Tiles::own_rows * stride, *v_tile = k_tile + Tiles::other_elements;
  T* own_tile = q_tile + 16 * warp_of_thread() * stride;  // this warp's rows
  const int sequence = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const std::int64_t begin = op.offsets[sequence];
  if (sequence == op.sequences) {
    clear_padding(op.out, op.heads, begin, op.rows);
    const std::int64_t first = begin + blockIdx.z * Tiles::threads + threadIdx.x;
    for (std::int64_t row = first; row < op.rows; row += gridDim.z * Tiles::threads)
      op.log_sum_exp[head * op.rows + row] = 0;
    return;
  }
  const int length = static_cast<int>(op.offsets[sequence + 1] - begin);
  const int first_query = static_cast<int>(blockIdx.z) * Tiles::own_rows;
  if (first_query >= length) return;
  const int queries = op.queries(length);  // followed by rows of zeros
  const bool any = first_query < queries;
  const int own = first_query + 16 * warp_of_thread();  // this warp's first query

  const Dropout dropout(op.mask);
  const std::int64_t place = head * op.rows + begin + own + fragment_row();  // of this lane's first query
  if (any)
    load_rows<D, Tiles::own_rows, Tiles::threads, InOrder>(q_tile, op.q, head, One::none, begin, queries,
                                                           first_query);
  const Scores scores_of(op, head);
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};  // in powers of 2; this lane's part of the sum
  TileC out[D / 8] = {};
  for (int first_key = 0; any && first_key < length; first_key += keys) {
    if (first_key > 0) __syncthreads();  // all warps are done with the previous tiles
    load_rows<D, keys, Tiles::threads, KeyOrder>(k_tile, op.k, op.kv_head(head), One::none, begin, length,
                                                 first_key);
    load_rows<D, keys, Tiles::threads, KeyOrder>(v_tile, op.v, op.kv_head(head), op.one, begin, length,
                                                 first_key);
    __syncthreads();
    if (own >= queries) continue;  // this warp has only loaded for the others
#pragma unroll 1
    for (int g = 0; g < keys && first_key + g < length; g += group) {
      TileC scores[group / 8] = {};
#pragma unroll
      for (int d = 0; d < D; d += Math::depth) {
        const auto a = load_a<Math>(own_tile + d, stride);
        each_b_of_rows<Math, group / 8>(k_tile + g * stride + d, stride,
                                        [&](int n, const auto& b) { Math::multiply(scores[n], a, b); });
      }
      const int lane_key = first_key + g + KeyOrder::first();
      if (first_key + g + group > length || scores_of.biased)
        scores_of.bias_and_hide(scores, own + fragment_row(), lane_key, length);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float here = -INFINITY;
#pragma unroll
        for (int n = 0; n < group / 8; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) here = fmaxf(here, scores[n].at[2 * half + i]);
        const float now = fmaxf(largest[half], row_max(here) * scores_of.unit);
        const float before = fast_exp2(largest[half] - now);
        largest[half] = now;
        sum[half] *= before;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
          out[n].at[2 * half] *= before;
          out[n].at[2 * half + 1] *= before;
        }
#pragma unroll
        for (int n = 0; n < group / 8; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& score = scores[n].at[2 * half + i];
            score = scores_of.power(score, now);
            sum[half] += score;
          }
        if (!dropout.active) continue;
        const auto decisions = dropout.decide<KeyOrder::each>((place + 8 * half) * op.longest + lane_key);
#pragma unroll
        for (int n = 0; n < group / 8; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (!decisions.stays(2 * n + i)) scores[n].at[2 * half + i] = 0;
      }
#pragma unroll
      for (int k = 0; k < group; k += Math::depth) {
        const auto a = Math::make_a(scores + k / 8);
        each_b_of_columns<Math, D / 8>(v_tile + (g + k) * stride, stride,
                                       [&](int n, const auto& b) { Math::add_product(out[n], a, b); });
      }
    }
  }
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = row_sum(sum[half]);
    const int row = own + fragment_row() + 8 * half;
    const bool real = row < queries;
    factor[half] = real ? op.mask.scale / total : 0;
    if (!real)  // not by the factor: the value may not be finite
#pragma unroll
      for (int n = 0; n < D / 8; ++n) out[n].at[2 * half] = out[n].at[2 * half + 1] = 0;
    if (row < length && fragment_column() == 0)
      op.log_sum_exp[place + 8 * half] = real ? largest[half] * log_of_2 + logf(total) : 0;
  }
  store_rows<D>(op.out, head, begin, length, own, own_tile, out, factor);
  store_rest(op.out, head, begin, length, own, op.appends_one ? queries : 0);
}

template <class Math>
void attention_forward(const AttentionForward& op, const KernelContext& context) {
  using T = typename Math::Element;
  if (op.q.dim(0) == 0) return;
  const auto arguments = attention_of<T>(op);
  with_head_size(op, [&](auto size) {
    constexpr int D = decltype(size)::value;
    using Tiles = AttentionTiles<Math, D>;
    COMERA_LAUNCH(context.stream,
                  (LaunchShape{.grid = attention_grid(op, op.heads, Tiles::own_rows),
                               .threads = Tiles::threads,
                               .shared_bytes = forward_elements<Math, D> * sizeof(T)}),
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
