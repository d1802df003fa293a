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
  const std::int64_t size = op.q.dim(1) / op.heads;
  Memory memory;
  memory.keys = scratch.floats(panels_size(size, op.longest));
  memory.values = scratch.floats(panels_size(op.longest, size));
  memory.scores = scratch.floats(query_rows(op.longest) * score_apart(op.longest));
  memory.row_scale = scratch.floats(query_rows(op.longest) + tile_rows);
  memory.bytes = reinterpret_cast<std::uint8_t*>(scratch.floats(dropout_room(op.longest) / 4 + 1));
  return memory;
}

// scores = exp(scores - their maximum), dropped ones 0; returns {log of the sum, 1 / sum}.
struct RowSums {
  float log_sum_exp, inverse;
};
RowSums softmax_row(float* scores, std::int64_t length, const std::uint8_t* bytes, std::uint32_t threshold) {
  const std::int64_t whole = length / lanes * lanes, left = length - whole;
  vec top = splat(scores[0]);
  for (std::int64_t j = 0; j < whole; j += lanes) top = max(top, load(scores + j));
  float maximum = largest(top);
  for (std::int64_t j = whole; j < length; ++j) maximum = std::max(maximum, scores[j]);
  vec total = splat(0);
  for (std::int64_t j = 0; j < whole; j += lanes) {
    const vec e = exp(load(scores + j) - maximum);
    total += e;
    store(scores + j, bytes == nullptr ? e : e * keeps(bytes + j, threshold, 1.F));
  }
  if (left > 0) {
    const vec e = exp(load_first(scores + whole, left) - maximum);
    float some[lanes];
    store(some, e);
    store_first(some + left, splat(0), lanes - left);
    total += load(some);
    store_first(scores + whole, bytes == nullptr ? e : e * keeps(bytes + whole, threshold, 1.F), left);
  }
  const float s = sum(total);
  return {maximum + std::log(s), 1.F / s};
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
  const std::int64_t width = op.q.dim(1), tokens = op.q.dim(0), size = width / op.heads;
  const std::int64_t block = query_rows(op.longest), apart = score_apart(op.longest);
  const std::size_t thread_bytes = context.scratch_bytes / static_cast<std::size_t>(thread_limit());
  const DropoutKey key = dropout_key(op);
  const std::uint32_t threshold = op.dropout.threshold();
  const float kept = op.dropout.active() ? static_cast<float>(op.dropout.scale()) : 1.F;
  float* log_sum_exp = op.log_sum_exp.data<float>();

  for_each_head(op, [&](std::int64_t first, std::int64_t length, std::int64_t head, int thread) {
    Scratch scratch(context.scratch + thread_bytes * static_cast<std::size_t>(thread));
    const Memory memory = take(op, scratch);
    const std::int64_t at = first * width + head * size;
    pack_transposed(op.k.data<float>() + at, width, size, length, memory.keys);
    pack(op.v.data<float>() + at, width, length, size, memory.values);
    for (std::int64_t begin = 0; begin < length; begin += block) {
      const std::int64_t rows = std::min(block, length - begin);
      multiply_into({op.q.data<float>() + at + begin * width, width}, memory.keys, rows, length, size,
                    {memory.scores, apart, Into::set, static_cast<float>(op.scale)});
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t row = head * tokens + first + begin + i;
        const std::uint8_t* bytes = nullptr;
        if (op.dropout.active()) {
          bytes = dropout_run(key, op.dropout.site, static_cast<std::uint64_t>(row * op.longest), length,
                              memory.bytes);
        }
        const RowSums sums = softmax_row(memory.scores + i * apart, length, bytes, threshold);
        log_sum_exp[row] = sums.log_sum_exp;
        memory.row_scale[i] = sums.inverse * kept;
      }
      multiply({memory.scores, apart}, memory.values, rows, size, length,
               StoreScaled{{op.out.data<float>() + at + begin * width, width, Into::set}, memory.row_scale});
    }
  });
  clear_padding(op.out, op.sequence_offsets);
  clear_padding_of_heads(op.log_sum_exp, op.sequence_offsets);
}

COMERA_CPU_END
