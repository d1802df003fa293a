#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_rows.h"
#include "kernels/cpu/kernels.h"

COMERA_CPU_BEGIN

namespace {
// Thread-local.
struct Memory {
  float* keys = nullptr;     // Kᵀ packed
  float* values = nullptr;   // V packed
  float* queries = nullptr;  // of a block; for a narrow type only
  float* scores = nullptr;
  RowSums* sums = nullptr;
  float* row_scale = nullptr;
  std::uint8_t* bytes = nullptr;
};

Memory take(const AttentionForward& op, Scratch& scratch) {
  Memory memory;
  memory.keys = scratch.floats(panels_size(op.key_size(), op.longest));
  memory.values = scratch.floats(panels_size(op.longest, op.computed_values()));
  memory.queries = scratch.floats(widened_size(op, query_rows(op.longest), op.key_size()));
  memory.scores = scratch.floats(query_rows(op.longest) * score_stride(op.longest));
  memory.sums = reinterpret_cast<RowSums*>(
      scratch.floats(query_rows(op.longest) * static_cast<std::int64_t>(sizeof(RowSums) / sizeof(float))));
  memory.row_scale = scratch.floats(query_rows(op.longest) + tile_rows);
  memory.bytes = reinterpret_cast<std::uint8_t*>(scratch.floats(ScoreDropout::room(op.longest) / 4 + 1));
  return memory;
}

// Rows of out, each with its own scale.
template <class T>
struct StoreScaled {
  StoreTileAs<T> store_tile;
  const float* row_scale;

  template <int Rows>
  inline __attribute__((always_inline)) void operator()(Tile<Rows>& tile, std::int64_t i, std::int64_t j,
                                                        std::int64_t columns) const {
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < panel_vectors; ++v) tile.at[r][v] *= row_scale[i + r];
    }
    store_tile(tile, i, j, columns);
  }
};
}  // namespace

std::size_t attention_forward_scratch(const AttentionForward& op) {
  Scratch scratch;
  take(op, scratch);
  return scratch.bytes() * static_cast<std::size_t>(thread_limit());
}

template <class T>
void attention_forward(const AttentionForward& op, const KernelContext& context) {
  const std::int64_t tokens = op.q.dim(0), q_width = op.q.dim(1), out_width = op.out.dim(1);
  const std::int64_t key_size = op.key_size(), value_size = op.computed_values(),
                     out_size = out_width / op.heads;
  const std::int64_t k_stride = key_stride(op), v_stride = value_stride(op);
  const std::int64_t block = query_rows(op.longest), ld = score_stride(op.longest);
  const std::size_t thread_bytes = context.scratch_bytes / static_cast<std::size_t>(thread_limit());
  const DropoutKey key = dropout_key(op);
  const bool drops = op.dropout.active();
  const std::uint32_t threshold = op.dropout.threshold();
  const float kept = drops ? static_cast<float>(op.dropout.scale()) : 1.F;
  float* log_sum_exp = op.log_sum_exp.data<float>();

  for_each_piece(op, [&](const AttentionPiece& piece) {
    Scratch scratch(context.scratch + thread_bytes * static_cast<std::size_t>(piece.thread));
    const Memory memory = take(op, scratch);
    const std::int64_t kv = kv_head(op, piece.head_begin), length = piece.length;
    pack_transposed(op.k.data<T>() + piece.first * k_stride + kv * key_size, k_stride, key_size, length,
                    memory.keys);
    pack(op.v.data<T>() + piece.first * v_stride + kv * value_size, v_stride, length, value_size,
         memory.values);
    for (std::int64_t head = piece.head_begin; head < piece.head_end; ++head) {
      for (std::int64_t begin = 0; begin < piece.queries; begin += block) {
        const std::int64_t rows = std::min(block, piece.queries - begin), first = piece.first + begin;
        T* out = op.out.data<T>() + first * out_width + head * out_size;
        const T* q = op.q.data<T>() + first * q_width + head * key_size;
        const Left queries = widened(q, q_width, rows, key_size, memory.queries);
        multiply_into(queries, memory.keys, rows, length, key_size,
                      {memory.scores, ld, Into::set, static_cast<float>(op.scale)});
        ScoreDropout dropout{key, op.dropout.site, op.longest, length, memory.bytes};
        if (drops) dropout.begin(head * tokens + first, rows);
        with_bias(op, head, [&](const auto& bias) {
          for (std::int64_t i = 0; i < rows; ++i) {
            fetch_part<true>(out + i * out_width, out_size);
            fetch_part(q + key_size + i * q_width, key_size);  // of the next head, if this is not the last
            float* scores = memory.scores + i * ld;
            const auto score = [&](vec products, std::int64_t j, const auto& at) {
              return bias.add(products, j - begin - i, at);
            };
            memory.sums[i] = drops
                                 ? softmax_row<true>(scores, score, length, dropout.row(i), threshold, scores)
                                 : softmax_row<false>(scores, score, length, nullptr, 0, scores);
          }
        });
        // Outside of the loop above: a call, as of log, spills all vector registers.
        for (std::int64_t i = 0; i < rows; ++i) {
          const RowSums& sums = memory.sums[i];
          log_sum_exp[head * tokens + first + i] = sums.log_sum_exp();
          memory.row_scale[i] = kept / sums.all;
          end_row(op, out + i * out_width, sums.kept * memory.row_scale[i]);
        }
        multiply({memory.scores, ld}, memory.values, rows, value_size, length,
                 StoreScaled<T>{{out, out_width, Into::set}, memory.row_scale});
      }
    }
  });
  clear_other_rows<T>(op, op.out);
  clear_other_sums(op);
}

COMERA_FOR_EACH_TYPE(AttentionForward, attention_forward)

COMERA_CPU_END
