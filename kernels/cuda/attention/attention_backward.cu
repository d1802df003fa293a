// Packed attention, backward, in two kernels: one owns queries (dq), one owns keys (dk, dv). Both recompute
// the probabilities from log_sum_exp. This takes seven products where sharing them would take five, but no
// scores pass between blocks, and no sum depends on the order in which blocks run.

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/kernels.h"

namespace comera::COMERA_CUDA {

namespace {

// Columns of scores in registers at a time. Sums of split products need separate registers, and so do the
// sums that a warp owns: D columns for queries, 2 D for keys.
template <class Math, int D, int sums>
inline constexpr int score_columns =
    std::min(AttentionTiles<Math, D>::group,
             (D == 128 || (AttentionTiles<Math, D>::narrow && sums * D > 64) ? 16 : 32) /
                 (std::is_same_v<Math, SplitTF32> && D > 32 ? 2 : 1));

// With 64 columns, the limit is shared memory traffic for fragments: blocks have four warps, so that with
// three blocks there are enough registers for the warps' own rows.
template <class Math, int D>
inline constexpr bool holds_own_rows = D == 64 && AttentionTiles<Math, D>::narrow;

template <class Math, int D>
struct QueryTiles {
  using Tiles = AttentionTiles<Math, D>;
  static constexpr bool held = holds_own_rows<Math, D>;
  static constexpr int warps = held ? 4 : Tiles::warps, blocks = held ? 3 : 2;
  static constexpr int threads = warps * warp, own_rows = 16 * warps, own_elements = own_rows * Tiles::stride;
  static constexpr std::size_t elements = 2 * (own_elements + Tiles::other_elements);
};

// Σ_c out dout for rows of a head, in all four lanes of each row.
template <int D, class T>
__device__ __forceinline__ float dot_of_row(const T* out, int size, int unit, const T* dout) {
  float part = 0;
#pragma unroll 4
  for (int n = 0; n < D / 8; ++n) {
    const int column = 8 * n + fragment_column();
    Values<2> o{};
    if (unit > 1) {
      if (column < size) o = load<2>(out + column);
    } else {
      if (column < size) o.at[0] = static_cast<float>(out[column]);
      if (column + 1 < size) o.at[1] = static_cast<float>(out[column + 1]);
    }
    const auto d = load<2>(dout + column);
    part += o.at[0] * d.at[0] + o.at[1] * d.at[1];
  }
  return part;
}

// Block (sequence, head, part of the queries). Also writes delta. The compiler is told the number of blocks
// per multiprocessor: otherwise it saves registers for more of them, and spills.
template <class Math, int D>
__global__ void __launch_bounds__((QueryTiles<Math, D>::threads), (QueryTiles<Math, D>::blocks))
    attention_query_gradient(Attention<typename Math::Element> op) {
  using T = typename Math::Element;
  using Tiles = AttentionTiles<Math, D>;
  using Queries = QueryTiles<Math, D>;
  constexpr int keys = Tiles::other_rows, group = Tiles::group, stride = Tiles::stride;
  constexpr int columns = score_columns<Math, D, 1>;
  using KeyOrder = PermutedKeyOrder<group>;
  auto* q_tile = shared_array<T>(Queries::elements);
  T *dout_tile = q_tile + Queries::own_elements, *k_tile = dout_tile + Queries::own_elements,
    *v_tile = k_tile + Tiles::other_elements;
  const int own_at = 16 * warp_of_thread() * stride;  // this warp's rows in a tile
  const int sequence = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const std::int64_t begin = op.offsets[sequence];
  if (sequence == op.sequences) {
    clear_padding(op.dq, op.heads, begin, op.rows);
    return;
  }
  const int length = static_cast<int>(op.offsets[sequence + 1] - begin);
  const int first_query = static_cast<int>(blockIdx.z) * Queries::own_rows;
  if (first_query >= length) return;
  const int queries = op.queries(length);  // followed by rows of zeros
  const bool any = first_query < queries;
  const int own = first_query + 16 * warp_of_thread();

  const Dropout dropout(op.mask);
  const std::int64_t place = head * op.rows + begin + own + fragment_row();  // of this lane's first query
  if (any) {
    load_rows<D, Queries::own_rows, Queries::threads, InOrder>(q_tile, op.q, head, One::none, begin, queries,
                                                               first_query);
    load_rows<D, Queries::own_rows, Queries::threads, InOrder>(dout_tile, op.dout, head, One::none, begin,
                                                               queries, first_query);
  }
  OwnRows<Math, D, Queries::held> own_q(q_tile + own_at), own_dout(dout_tile + own_at);
  const Scores scores_of(op, head);
  float log_sum[2] = {0, 0}, delta[2] = {0, 0};  // log_sum in powers of 2
  TileC dq[D / 8] = {};
  for (int first_key = 0; any && first_key < length; first_key += keys) {
    if (first_key > 0) __syncthreads();
    load_rows<D, keys, Queries::threads, KeyOrder>(k_tile, op.k, op.kv_head(head), One::none, begin, length,
                                                   first_key);
    load_rows<D, keys, Queries::threads, KeyOrder>(v_tile, op.v, op.kv_head(head), op.one, begin, length,
                                                   first_key);
    __syncthreads();
    if (own >= queries) continue;  // this warp has only loaded for the others
    if (first_key == 0) {
      own_q.hold();
      own_dout.hold();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = fragment_row() + 8 * half;
        const bool real = own + row < queries;
        float part = 0;
        if (real) {
          log_sum[half] = op.log_sum_exp[place + 8 * half] * log2_of_e;
          part = dot_of_row<D>(op.out.row(begin + own + row, head), op.out.size, op.out.unit,
                               dout_tile + own_at + row * stride);
        }
        delta[half] = row_sum(part) * op.kept;
        if (real && fragment_column() == 0) op.delta[place + 8 * half] = delta[half];
      }
    }
#pragma unroll 1
    for (int g = 0; g < keys && first_key + g < length; g += group) {
      const int lane_key = first_key + g + KeyOrder::first();
      const bool plain = first_key + g + group <= length && !scores_of.biased;
      DropoutMaskBits<KeyOrder::each> decisions[2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        decisions[half] = dropout.decide<KeyOrder::each>((place + 8 * half) * op.longest + lane_key);
#pragma unroll 1
      for (int k = 0; k < group; k += columns) {
        TileC scores[columns / 8] = {}, gradients[columns / 8] = {};
#pragma unroll 4
        for (int d = 0; d < D; d += Math::depth) {
          const auto q = own_q.at(d);
          const auto dout = own_dout.at(d);
          const int at = (g + k) * stride + d;
          each_b_of_rows<Math, columns / 8>(
              k_tile + at, stride, [&](int n, const auto& key) { Math::multiply(scores[n], q, key); });
          each_b_of_rows<Math, columns / 8>(v_tile + at, stride, [&](int n, const auto& value) {
            Math::multiply(gradients[n], dout, value);
          });
        }
        if (!plain) scores_of.bias_and_hide(scores, own + fragment_row(), lane_key + k / 4, length);
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int n = 0; n < columns / 8; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              float& score = scores[n].at[2 * half + i];
              const float p = scores_of.power(score, log_sum[half]);
              const bool stays = decisions[half].stays(2 * n + i);
              score = (stays ? p : 0) * gradients[n].at[2 * half + i] - p * delta[half];
            }
#pragma unroll
        for (int c = 0; c < columns; c += Math::depth) {
          const auto ds = Math::make_a(scores + c / 8);
          each_b_of_columns<Math, D / 8>(k_tile + (g + k + c) * stride, stride,
                                         [&](int n, const auto& key) { Math::add_product(dq[n], ds, key); });
        }
        decisions[0].template skip<columns / 4>();
        decisions[1].template skip<columns / 4>();
      }
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (own + fragment_row() + 8 * half >= queries)
#pragma unroll
      for (int n = 0; n < D / 8; ++n) dq[n].at[2 * half] = dq[n].at[2 * half + 1] = 0;
  const float factor = op.scale * op.mask.scale;
  store_rows<D>(op.dq, head, begin, length, own, q_tile + own_at, dq, {factor, factor});
}

// If heads share keys, there are few blocks, each of which iterates over all heads: two teams of its warps
// then alternate between the tiles.
template <class Math, int D, int teams>
struct KeyTiles {
  using Tiles = AttentionTiles<Math, D>;
  static constexpr bool held = holds_own_rows<Math, D>;
  static constexpr int warps = held ? 4 : Tiles::warps, blocks = held ? 3 : 2;
  static constexpr int threads = warps * warp;
  static constexpr int team_warps = warps / teams, team_threads = team_warps * warp;
  static constexpr int own_rows = 16 * team_warps, queries = Tiles::other_rows;
  static constexpr int own_elements = own_rows * Tiles::stride;
  // Per team: log_sum and delta of each query; both tiles of queries.
  static constexpr std::size_t team_bytes =
      2 * queries * sizeof(float) + 2 * Tiles::other_elements * sizeof(typename Math::Element);
  static constexpr std::size_t bytes = 2 * own_elements * sizeof(typename Math::Element) + teams * team_bytes;
  static_assert(teams == 1 || team_bytes * teams >= team_threads * D * sizeof(float));
};

// Block (sequence, head of keys, part of the keys), over all heads that use them. Scores have keys as rows.
template <class Math, int D, int teams>
__global__ void __launch_bounds__((KeyTiles<Math, D, teams>::threads), (KeyTiles<Math, D, teams>::blocks))
    attention_key_gradient(Attention<typename Math::Element> op) {
  using T = typename Math::Element;
  using Tiles = AttentionTiles<Math, D>;
  using Keys = KeyTiles<Math, D, teams>;
  constexpr int queries = Keys::queries, group = Tiles::group, stride = Tiles::stride;
  constexpr int columns = score_columns<Math, D, 2>;
  auto* k_tile = reinterpret_cast<T*>(shared_array<std::byte>(Keys::bytes));
  T* v_tile = k_tile + Keys::own_elements;
  auto* teams_memory = reinterpret_cast<std::byte*>(v_tile + Keys::own_elements);
  const int team = warp_of_thread() / Keys::team_warps;
  auto* log_sum = reinterpret_cast<float*>(teams_memory + team * Keys::team_bytes);
  float* delta = log_sum + queries;
  T *q_tile = reinterpret_cast<T*>(delta + queries), *dout_tile = q_tile + Tiles::other_elements;
  const int own_row = 16 * (warp_of_thread() % Keys::team_warps), own_at = own_row * stride;
  const int sequence = static_cast<int>(blockIdx.x), kv_head = static_cast<int>(blockIdx.y);
  const std::int64_t begin = op.offsets[sequence];
  if (sequence == op.sequences) {
    clear_padding(op.dk, op.kv_heads, begin, op.rows);
    clear_padding(op.dv, op.kv_heads, begin, op.rows);
    return;
  }
  const int length = static_cast<int>(op.offsets[sequence + 1] - begin);
  const int first_key = static_cast<int>(blockIdx.z) * Keys::own_rows;
  if (first_key >= length) return;
  const int own = first_key + own_row;
  const int real_queries = op.queries(length);

  const Dropout dropout(op.mask);
  // Each team takes every `teams`-th tile of the queries of its heads.
  const int heads_each = op.heads / op.kv_heads, parts = (real_queries + queries - 1) / queries;
  const auto head_of = [&](int tile) { return kv_head * heads_each + tile / parts; };
  const auto first_of = [&](int tile) { return tile % parts * queries; };
  const auto prefetch_tile = [&](int tile) {
    if (tile >= heads_each * parts) return;
    prefetch_rows<queries, Keys::team_threads>(op.q, head_of(tile), begin, real_queries, first_of(tile));
    prefetch_rows<queries, Keys::team_threads>(op.dout, head_of(tile), begin, real_queries, first_of(tile));
  };
  prefetch_tile(team);
  load_rows<D, Keys::own_rows, Keys::threads, InOrder>(k_tile, op.k, kv_head, One::none, begin, length,
                                                       first_key);
  load_rows<D, Keys::own_rows, Keys::threads, InOrder>(v_tile, op.v, kv_head, op.one, begin, length,
                                                       first_key);
  TileC dk[D / 8] = {}, dv[D / 8] = {};
  OwnRows<Math, D, false> own_k(k_tile + own_at);  // registers suffice for one of them
  OwnRows<Math, D, Keys::held> own_v(v_tile + own_at);
  for (int tile = team; tile - team < heads_each * parts; tile += teams) {
    const bool turn = tile < heads_each * parts;
    const int head = head_of(tile), first_query = first_of(tile);
    const std::int64_t place = head * op.rows + begin + first_query;
    if (tile >= teams) __syncthreads();
    if (turn) {
      // A missing query has probabilities of 0.
      const int query = static_cast<int>(opaque_thread_index() % Keys::team_threads);
      float query_sum = INFINITY, query_delta = 0;
      if (query < queries && first_query + query < real_queries) {
        query_sum = op.log_sum_exp[place + query] * log2_of_e;
        query_delta = op.delta[place + query];
      }
      load_rows<D, queries, Keys::team_threads, InOrder>(q_tile, op.q, head, One::none, begin, real_queries,
                                                         first_query);
      load_rows<D, queries, Keys::team_threads, InOrder>(dout_tile, op.dout, head, One::none, begin,
                                                         real_queries, first_query);
      if (query < queries) {
        log_sum[query] = query_sum;
        delta[query] = query_delta;
      }
    }
    __syncthreads();
    prefetch_tile(tile + teams);
    if (!turn || own >= length) continue;
    if (tile == team) own_v.hold();
    const Scores scores_of(op, head);
#pragma unroll 1
    for (int g = 0; g < queries && first_query + g < real_queries; g += group) {
      // This lane's decisions for the warp's 16 keys and two queries, from which each lane below selects
      // those of its own keys and queries: key 4 i + j is bit 8 j + 7 - i for the first query, 8 j + 3 - i
      // for the other.
      unsigned bits = 0;
#pragma unroll(D == 32 ? 2 : 1)
      for (int i = 0; i < 2; ++i) {
        const std::int64_t row = place + g + 2 * lane_of_thread() + i;
        const auto decisions = dropout.decide<16>(row * op.longest + own);
#pragma unroll
        for (int w = 0; w < 4; ++w) bits |= decisions.word[w] >> (w + 4 * i) & (0x80808080u >> (w + 4 * i));
      }
#pragma unroll 1
      for (int k = 0; k < group; k += columns) {
        TileC scores[columns / 8] = {}, gradients[columns / 8] = {};
#pragma unroll 4
        for (int d = 0; d < D; d += Math::depth) {
          const auto key = own_k.at(d);
          const auto value = own_v.at(d);
          const int at = (g + k) * stride + d;
          each_b_of_rows<Math, columns / 8>(q_tile + at, stride,
                                            [&](int n, const auto& q) { Math::multiply(scores[n], key, q); });
          each_b_of_rows<Math, columns / 8>(dout_tile + at, stride, [&](int n, const auto& dout) {
            Math::multiply(gradients[n], value, dout);
          });
        }
        scores_of.biases([&](const auto& with_bias) {
#pragma unroll
          for (int n = 0; n < columns / 8; ++n) {
            const int query = first_query + g + k + 8 * n + fragment_column();
            const auto distance = static_cast<float>(own + fragment_row() - query);
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
              for (int half = 0; half < 2; ++half)
                scores[n].at[2 * half + i] =
                    with_bias(scores[n].at[2 * half + i], distance + static_cast<float>(8 * half - i));
          }
        });
#pragma unroll
        for (int n = 0; n < columns / 8; ++n) {
          const int column = g + k + 8 * n + fragment_column();
          const auto log_sums = load<2>(log_sum + column), deltas = load<2>(delta + column);
          // Bits 31 and 29: the first query's keys; 27 and 25: the other one's.
          const unsigned stay = __shfl_sync(all_lanes, bits, k / 2 + 4 * n + fragment_column() / 2)
                                << (24 - 8 * (fragment_row() % 4) + fragment_row() / 4);
#pragma unroll
          for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              float &score = scores[n].at[2 * half + i], &gradient = gradients[n].at[2 * half + i];
              const float p = scores_of.power(score, log_sums.at[i]);
              score = (stay & (0x80000000u >> (4 * i + 2 * half))) != 0 ? p : 0;
              gradient = score * gradient - p * deltas.at[i];
            }
        }
#pragma unroll
        for (int c = 0; c < columns; c += Math::depth) {
          const auto p = Math::make_a(scores + c / 8), ds = Math::make_a(gradients + c / 8);
          const int at = (g + k + c) * stride;
          each_b_of_columns<Math, D / 8>(dout_tile + at, stride,
                                         [&](int n, const auto& dout) { Math::add_product(dv[n], p, dout); });
          each_b_of_columns<Math, D / 8>(q_tile + at, stride,
                                         [&](int n, const auto& q) { Math::add_product(dk[n], ds, q); });
        }
      }
    }
  }
  if constexpr (teams > 1) {
    auto* sums = reinterpret_cast<float*>(teams_memory) + threadIdx.x % Keys::team_threads;
    const auto each_sum = [&](const auto& visit) {
#pragma unroll
      for (int n = 0; n < D / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          visit(dk[n].at[i], sums[(8 * n + i) * Keys::team_threads]);
          visit(dv[n].at[i], sums[(8 * n + 4 + i) * Keys::team_threads]);
        }
    };
    __syncthreads();
    if (team == 1) each_sum([](float own_sum, float& shared) { shared = own_sum; });
    __syncthreads();
    if (team == 1) return;
    each_sum([](float& own_sum, float shared) { own_sum += shared; });
  }
  if (op.one == One::last)
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (8 * n + fragment_column() + i == op.dv.size - 1) dv[n].at[i] = dv[n].at[2 + i] = 0;
  const float factor = op.scale * op.mask.scale;
  store_rows<D>(op.dk, kv_head, begin, length, own, k_tile + own_at, dk, {factor, factor});
  store_rows<D>(op.dv, kv_head, begin, length, own, v_tile + own_at, dv, {op.mask.scale, op.mask.scale});
  store_rest(op.dv, kv_head, begin, length, own, 0);
}

std::size_t attention_backward_scratch(const AttentionBackward& op) {
  return static_cast<std::size_t>(op.heads * op.q.dim(0)) * sizeof(float);
}

template <class Math>
void attention_backward(const AttentionBackward& op, const KernelContext& context) {
  using T = typename Math::Element;
  if (op.q.dim(0) == 0) return;
  Attention<T> arguments = attention_of<T>(op);
  arguments.dout = out_rows<T>(op, op.dout);
  arguments.dq = head_rows<T>(op.dq, op.q.dim(1), op.key_size(), op.key_size());
  arguments.dk = head_rows<T>(op.dk, key_stride(op), op.key_size(), op.key_size());
  arguments.dv = value_rows<T>(op, op.dv);
  arguments.delta = reinterpret_cast<float*>(context.scratch);
  with_head_size(op, [&](auto size) {
    constexpr int D = decltype(size)::value;
    using Tiles = AttentionTiles<Math, D>;
    using Queries = QueryTiles<Math, D>;
    LaunchShape shape{.grid = attention_grid(op, op.heads, Queries::own_rows),
                      .threads = Queries::threads,
                      .shared_bytes = Queries::elements * sizeof(T)};
    COMERA_LAUNCH(context.stream, shape, (attention_query_gradient<Math, D>), arguments);
    const auto key_gradient = [&](auto teams) {
      constexpr int count = decltype(teams)::value;
      using Keys = KeyTiles<Math, D, count>;
      shape.grid = attention_grid(op, op.kv_heads(), Keys::own_rows);
      shape.threads = Keys::threads;
      shape.shared_bytes = Keys::bytes;
      COMERA_LAUNCH(context.stream, shape, (attention_key_gradient<Math, D, count>), arguments);
    };
    if constexpr (Tiles::narrow && D == 32)
      if (op.shared_keys) return key_gradient(std::integral_constant<int, 2>{});
    key_gradient(std::integral_constant<int, 1>{});
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
