#include <cmath>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/kernels.h"

COMERA_CPU_BEGIN

namespace {
// Of one thread.
struct Memory {
  float* keys = nullptr;    // Kᵀ packed
  float* values = nullptr;  // V packed
  float* scores = nullptr;
  float* row_scale = nullptr;
  std::uint8_t* bytes = nullptr;
};

Memory take(const AttentionForward& op, Scratch& scratch) {
  Memory memory;
  memory.keys = scratch.floats(panels_size(op.key_size(), op.longest));
  memory.values = scratch.floats(panels_size(op.longest, op.value_size()));
  memory.scores = scratch.floats(query_rows(op.longest) * score_stride(op.longest));
  memory.row_scale = scratch.floats(query_rows(op.longest) + tile_rows);
  memory.bytes = reinterpret_cast<std::uint8_t*>(scratch.floats(ScoreDropout::room(op.longest) / 4 + 1));
  return memory;
}

struct RowSums {
  float log_sum_exp;  // log of the sum
  float inverse;      // 1 / sum
  float kept;         // sum of what was not dropped
};

// scores = exp(scores - their maximum), dropped ones 0.
template <bool drops>
RowSums softmax_row(float* scores, std::int64_t length, const std::uint8_t* bytes, std::uint32_t threshold) {
  const std::int64_t whole = length / lanes * lanes, left = length - whole;
  vec top = splat(scores[0]);
  for (std::int64_t j = 0; j < whole; j += lanes) top = max(top, load(scores + j));
  float maximum = largest(top);
  for (std::int64_t j = whole; j < length; ++j) maximum = std::max(maximum, scores[j]);
  vec total = splat(0), kept = splat(0);
  for (std::int64_t j = 0; j < whole; j += lanes) {
    const vec e = exp(load(scores + j) - maximum);
    total += e;
    const vec left_over = drops ? e * keeps(bytes + j, threshold, 1.F) : e;
    kept += left_over;
    store(scores + j, left_over);
  }
  if (left > 0) {
    const vec e = keep_first(exp(load_first(scores + whole, left) - maximum), left);
    total += e;
    const vec left_over = drops ? e * keeps(bytes + whole, threshold, 1.F) : e;
    kept += left_over;
    store_first(scores + whole, left_over, left);
  }
  const float s = sum(total);
  return {maximum + std::log(s), 1.F / s, sum(kept)};
}

// Rows of out, each with its own scale.
struct StoreScaled {
  StoreTile store_tile;
  const float* row_scale;

  template <int Rows>
  void operator()(Tile<Rows>& tile, std::int64_t i, std::int64_t j, std::int64_t columns) const {
    for (int r = 0; r < Rows; ++r) {
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

void attention_forward(const AttentionForward& op, const KernelContext& context) {
  const std::int64_t tokens = op.q.dim(0), q_width = op.q.dim(1), out_width = op.out.dim(1);
  const std::int64_t key_size = op.key_size(), value_size = op.value_size(), out_size = out_width / op.heads;
  const std::int64_t k_stride = key_stride(op), v_stride = value_stride(op);
  const std::int64_t block = query_rows(op.longest), apart = score_stride(op.longest);
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
    pack_transposed(op.k.data<float>() + piece.first * k_stride + kv * key_size, k_stride, key_size, length,
                    memory.keys);
    pack(op.v.data<float>() + piece.first * v_stride + kv * value_size, v_stride, length, value_size,
         memory.values);
    for (std::int64_t head = piece.head_begin; head < piece.head_end; ++head) {
      for (std::int64_t begin = 0; begin < length; begin += block) {
        const std::int64_t rows = std::min(block, length - begin), first = piece.first + begin;
        float* out = op.out.data<float>() + first * out_width + head * out_size;
        multiply_into({op.q.data<float>() + first * q_width + head * key_size, q_width}, memory.keys, rows,
                      length, key_size, {memory.scores, apart, Into::set, static_cast<float>(op.scale)});
        ScoreDropout dropout{key, op.dropout.site, op.longest, length, memory.bytes};
        if (drops) dropout.begin(head * tokens + first, rows);
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::int64_t row = head * tokens + first + i;
          float* scores = memory.scores + i * apart;
          RowSums sums;
          if (drops) {
            sums = softmax_row<true>(scores, length, dropout.row(i), threshold);
          } else {
            sums = softmax_row<false>(scores, length, nullptr, 0);
          }
          log_sum_exp[row] = sums.log_sum_exp;
          memory.row_scale[i] = sums.inverse * kept;
          if (op.append_one) out[i * out_width + value_size] = sums.kept * memory.row_scale[i];
        }
        multiply({memory.scores, apart}, memory.values, rows, value_size, length,
                 StoreScaled{{out, out_width, Into::set}, memory.row_scale});
      }
    }
  });
  clear_padding(op.out, tokens, out_width, out_width, op.sequence_offsets);
  clear_padding_of_heads(op.log_sum_exp, op.sequence_offsets);
}

COMERA_CPU_END
