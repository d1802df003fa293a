// Packed attention, backward, in two kernels: one owns queries (dq), one owns keys (dk, dv). Both compute the
// probabilities again from log_sum_exp. That is seven products where sharing them would need five, but no
// score crosses from block to block and nothing is added by whoever comes first.

#include "kernels/cuda/attention.h"
#include "kernels/cuda/kernels.h"

namespace comera::COMERA_CUDA {

namespace {

// Both kernels hold two tiles of own rows and two of others, and the second one two numbers of each query.
template <class Math, int D>
inline constexpr std::size_t backward_shared_bytes = 2 *
                                                         (AttentionTiles<Math, D>::own_elements +
                                                          AttentionTiles<Math, D>::other_elements) *
                                                         sizeof(typename Math::Element) +
                                                     2 * AttentionTiles<Math, D>::other_rows * sizeof(float);

// So many columns of scores are in registers at a time. Sums of split products need registers of their own.
template <class Math, int D>
inline constexpr int score_columns = (D == 128 ? 16 : 32) /
                                     (std::is_same_v<Math, SplitTF32> && D > 32 ? 2 : 1);

// Block (sequence, head, part): 64 queries. Also leaves delta. The compiler is told of two blocks for each
// multiprocessor: otherwise it saves registers for a fourth one, and spills.
template <class Math, int D>
__global__ void __launch_bounds__(attention_threads, 2)
    attention_query_gradient(Attention<typename Math::Element> op) {
  using T = typename Math::Element;
  using Tiles = AttentionTiles<Math, D>;
  constexpr int keys = Tiles::other_rows, stride = Tiles::stride;
  constexpr int columns = keys < score_columns<Math, D> ? keys : score_columns<Math, D>;
  auto* q_tile = shared_array<T>(2 * (Tiles::own_elements + Tiles::other_elements));
  T *dout_tile = q_tile + Tiles::own_elements, *k_tile = dout_tile + Tiles::own_elements,
    *v_tile = k_tile + Tiles::other_elements;
  const int sequence = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const std::int64_t begin = op.offsets[sequence];
  if (sequence == op.sequences) {
    clear_padding(op.dq, op.heads, begin, op.rows);
    return;
  }
  const int length = static_cast<int>(op.offsets[sequence + 1] - begin);
  const int first_query = static_cast<int>(blockIdx.z) * own_rows;
  if (first_query >= length) return;
  const int own = first_query + 16 * warp_of_thread();

  const bool dropped = op.mask.key != nullptr;
  DropoutKey key{};
  if (dropped) key = *op.mask.key;
  DropoutRow dropout[2] = {{op.mask, key}, {op.mask, key}};
  load_rows<D>(q_tile, op.q, head, false, begin, length, first_query, own_rows);
  load_rows<D>(dout_tile, op.dout, head, false, begin, length, first_query, own_rows);
  __syncthreads();
  float log_sum[2], delta[2];  // log_sum in powers of 2
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = own + fragment_row() + 8 * half;
    const std::int64_t place = head * op.rows + begin + row;
    dropout[half].begin(place * op.longest);
    log_sum[half] = 0;
    float part = 0;
    if (row < length) {
      log_sum[half] = op.log_sum_exp[place] * log2_of_e;
      const T* out = op.out.row(begin + row, head);
      const T* dout = dout_tile + (row - first_query) * stride;
      for (int column = fragment_column() / 2; column < op.out.size; column += 4)
        part += static_cast<float>(out[column]) * static_cast<float>(dout[column]);
    }
    delta[half] = row_sum(part);
    if (row < length && fragment_column() == 0) op.delta[place] = delta[half];
  }

  const float scale = op.scale * log2_of_e;
  const DistanceBias bias(op, head);
  TileC dq[D / 8] = {};
  for (int first_key = 0; first_key < length; first_key += keys) {
    __syncthreads();
    load_rows<D>(k_tile, op.k, op.kv_head(head), false, begin, length, first_key, keys);
    load_rows<D>(v_tile, op.v, op.kv_head(head), op.append_one, begin, length, first_key, keys);
    __syncthreads();
    if (own >= length) continue;  // this warp has loaded for the others only
    for (int k = 0; k < keys && first_key + k < length; k += columns) {
      TileC scores[columns / 8] = {}, gradients[columns / 8] = {};
#pragma unroll
      for (int d = 0; d < D; d += Math::depth) {
        const auto q = load_a<Math>(q_tile + 16 * warp_of_thread() * stride + d, stride);
        const auto dout = load_a<Math>(dout_tile + 16 * warp_of_thread() * stride + d, stride);
#pragma unroll
        for (int n = 0; n < columns / 8; ++n) {
          Math::multiply(scores[n], q, load_b_rows<Math>(k_tile + (k + 8 * n) * stride + d, stride));
          Math::multiply(gradients[n], dout, load_b_rows<Math>(v_tile + (k + 8 * n) * stride + d, stride));
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int n = 0; n < columns / 8; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int column = first_key + k + 8 * n + fragment_column() + i;
            float& score = scores[n].at[2 * half + i];
            float gradient = gradients[n].at[2 * half + i];
            if (dropped) gradient *= dropout[half].factor(column);
            const float power = score * scale + bias(own + fragment_row() + 8 * half, column) - log_sum[half];
            score = column < length ? exp2f(power) * (gradient - delta[half]) : 0;
          }
#pragma unroll
      for (int c = 0; c < columns; c += Math::depth) {
        const auto ds = Math::make_a(scores + c / 8);
#pragma unroll
        for (int n = 0; n < D / 8; ++n)
          Math::add_product(dq[n], ds, load_b_columns<Math>(k_tile + (k + c) * stride + 8 * n, stride));
      }
    }
  }
  store_rows<D>(op.dq, head, begin, length, own, dq, {op.scale, op.scale});
}

// Block (sequence, head of keys, part): 64 keys, over all heads that use them. Scores stand with keys as
// rows.
template <class Math, int D>
__global__ void __launch_bounds__(attention_threads, 2)
    attention_key_gradient(Attention<typename Math::Element> op) {
  using T = typename Math::Element;
  using Tiles = AttentionTiles<Math, D>;
  constexpr int queries = Tiles::other_rows, stride = Tiles::stride;
  constexpr int columns = queries < score_columns<Math, D> ? queries : score_columns<Math, D>;
  auto* log_sum = reinterpret_cast<float*>(shared_array<std::byte>(backward_shared_bytes<Math, D>));
  float* delta = log_sum + queries;
  T *k_tile = reinterpret_cast<T*>(delta + queries), *v_tile = k_tile + Tiles::own_elements,
    *q_tile = v_tile + Tiles::own_elements, *dout_tile = q_tile + Tiles::other_elements;
  const int sequence = static_cast<int>(blockIdx.x), kv_head = static_cast<int>(blockIdx.y);
  const std::int64_t begin = op.offsets[sequence];
  if (sequence == op.sequences) {
    clear_padding(op.dk, op.kv_heads, begin, op.rows);
    clear_padding(op.dv, op.kv_heads, begin, op.rows);
    return;
  }
  const int length = static_cast<int>(op.offsets[sequence + 1] - begin);
  const int first_key = static_cast<int>(blockIdx.z) * own_rows;
  if (first_key >= length) return;
  const int own = first_key + 16 * warp_of_thread();

  const bool dropped = op.mask.key != nullptr;
  DropoutKey key{};
  if (dropped) key = *op.mask.key;
  load_rows<D>(k_tile, op.k, kv_head, false, begin, length, first_key, own_rows);
  load_rows<D>(v_tile, op.v, kv_head, op.append_one, begin, length, first_key, own_rows);
  const float scale = op.scale * log2_of_e;
  TileC dk[D / 8] = {}, dv[D / 8] = {};
  const int heads_each = op.heads / op.kv_heads;
  for (int head = kv_head * heads_each; head < (kv_head + 1) * heads_each; ++head) {
    const DistanceBias bias(op, head);
    for (int first_query = 0; first_query < length; first_query += queries) {
      __syncthreads();
      load_rows<D>(q_tile, op.q, head, false, begin, length, first_query, queries);
      load_rows<D>(dout_tile, op.dout, head, false, begin, length, first_query, queries);
      for (int i = static_cast<int>(threadIdx.x); i < queries && first_query + i < length;
           i += attention_threads) {
        const std::int64_t place = head * op.rows + begin + first_query + i;
        log_sum[i] = op.log_sum_exp[place] * log2_of_e;
        delta[i] = op.delta[place];
      }
      __syncthreads();
      if (own >= length) continue;
      for (int q = 0; q < queries && first_query + q < length; q += columns) {
        TileC scores[columns / 8] = {}, gradients[columns / 8] = {};
#pragma unroll
        for (int d = 0; d < D; d += Math::depth) {
          const auto k = load_a<Math>(k_tile + 16 * warp_of_thread() * stride + d, stride);
          const auto v = load_a<Math>(v_tile + 16 * warp_of_thread() * stride + d, stride);
#pragma unroll
          for (int n = 0; n < columns / 8; ++n) {
            Math::multiply(scores[n], k, load_b_rows<Math>(q_tile + (q + 8 * n) * stride + d, stride));
            Math::multiply(gradients[n], v, load_b_rows<Math>(dout_tile + (q + 8 * n) * stride + d, stride));
          }
        }
#pragma unroll
        for (int n = 0; n < columns / 8; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int column = q + 8 * n + fragment_column() + i;
            const bool real = first_query + column < length;
            DropoutRow dropout(op.mask, key);
            dropout.begin((head * op.rows + begin + first_query + column) * op.longest);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              float &score = scores[n].at[2 * half + i], &gradient = gradients[n].at[2 * half + i];
              const int row = own + fragment_row() + 8 * half;
              const float power = score * scale + bias(first_query + column, row) - log_sum[column];
              const float p = real ? exp2f(power) : 0;
              const float factor = dropped ? dropout.factor(row) : 1;
              score = p * factor;
              gradient = real ? p * (factor * gradient - delta[column]) : 0;
            }
          }
#pragma unroll
        for (int c = 0; c < columns; c += Math::depth) {
          const auto p = Math::make_a(scores + c / 8), ds = Math::make_a(gradients + c / 8);
#pragma unroll
          for (int n = 0; n < D / 8; ++n) {
            Math::add_product(dv[n], p, load_b_columns<Math>(dout_tile + (q + c) * stride + 8 * n, stride));
            Math::add_product(dk[n], ds, load_b_columns<Math>(q_tile + (q + c) * stride + 8 * n, stride));
          }
        }
      }
    }
  }
  store_rows<D>(op.dk, kv_head, begin, length, own, dk, {op.scale, op.scale});
  store_rows<D>(op.dv, kv_head, begin, length, own, dv, {1, 1});
}

std::size_t attention_backward_scratch(const AttentionBackward& op) {
  return static_cast<std::size_t>(op.heads * op.q.dim(0)) * sizeof(float);
}

template <class Math>
void attention_backward(const AttentionBackward& op, const KernelContext& context) {
  using T = typename Math::Element;
  if (op.q.dim(0) == 0) return;
  Attention<T> arguments = attention_of<T>(op);
  arguments.dout = head_rows<T>(op.dout, op.out.dim(1), arguments.out.size);
  arguments.dq = head_rows<T>(op.dq, op.q.dim(1), op.key_size());
  arguments.dk = head_rows<T>(op.dk, key_stride(op), op.key_size());
  arguments.dv = head_rows<T>(op.dv, value_stride(op), op.value_size());
  arguments.delta = reinterpret_cast<float*>(context.scratch);
  with_head_size(op, [&](auto size) {
    constexpr int D = decltype(size)::value;
    LaunchShape shape{.grid = attention_grid(op, op.heads),
                      .threads = attention_threads,
                      .shared_bytes = backward_shared_bytes<Math, D>};
    COMERA_LAUNCH(context.stream, shape, (attention_query_gradient<Math, D>), arguments);
    shape.grid = attention_grid(op, op.kv_heads());
    COMERA_LAUNCH(context.stream, shape, (attention_key_gradient<Math, D>), arguments);
  });
}

}  // namespace

void register_attention_backward(Backend& backend, bool tf32) {
  backend.set<AttentionBackward>(DType::float32,
                                 tf32 ? attention_backward<TF32> : attention_backward<SplitTF32>,
                                 attention_backward_scratch);
  backend.set<AttentionBackward>(DType::bfloat16, attention_backward<BF16>, attention_backward_scratch);
}

}  // namespace comera::COMERA_CUDA
