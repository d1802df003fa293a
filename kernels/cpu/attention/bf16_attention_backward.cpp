#include "kernels/cpu/attention/bf16_attention.h"

COMERA_CPU_BEGIN

namespace {
// Whole blocks, limited by the size of ScoreDropout.
std::int64_t most_queries(std::int64_t longest) { return longest <= 144 ? 128 : 96; }

// Thread-local.
struct Memory {
  bfloat16 *keys_across, *values_across, *keys;  // Kᵀ, Vᵀ and K packed
  bfloat16 *panel, *rest;
  Bf16Block p, ds;                   // of a block of queries
  Bf16Block across;                  // the transpose of one of them
  float *scores, *gradients, *sums;  // of 32 queries
  float *dk, *dv;
  std::uint8_t* bytes;

  Memory(const AttentionBackward& op, Scratch& scratch) {
    const std::int64_t longest = op.longest, queries = most_queries(longest);
    const std::int64_t key_size = whole_blocks(op.key_size()),
                       value_size = whole_blocks(op.computed_values());
    keys_across = scratch.narrow(key_size * whole_blocks(longest));
    values_across = scratch.narrow(value_size * whole_blocks(longest));
    keys = scratch.narrow(key_size * whole_blocks(longest));
    panel = scratch.narrow(queries * bf16_block);
    rest = scratch.narrow(bf16_block * std::max(key_size, value_size));
    p = Bf16Block(queries, longest, scratch);
    ds = Bf16Block(queries, longest, scratch);
    across = Bf16Block(longest, queries, scratch);
    scores = scratch.floats(bf16_block * bf16_score_stride(longest));
    gradients = scratch.floats(bf16_block * bf16_score_stride(longest));
    sums = scratch.floats(bf16_block * key_size);
    dk = scratch.floats(whole_blocks(longest) * key_size);
    dv = scratch.floats(whole_blocks(longest) * value_size);
    bytes = reinterpret_cast<std::uint8_t*>(scratch.floats(ScoreDropout::room(longest) / 4 + 1));
  }
};

class Sequence {
 public:
  Sequence(const AttentionBackward& op, const Memory& memory, const AttentionPiece& piece)
      : op_(op), memory_(memory), piece_(piece), key_(dropout_key(op)) {
    const std::int64_t kv = kv_head(op, piece.head_begin);
    const auto* k = op.k.data<bfloat16>() + piece.first * key_stride(op) + kv * op.key_size();
    const auto* v = op.v.data<bfloat16>() + piece.first * value_stride(op) + kv * op.computed_values();
    bf16_pack_sequence(k, key_stride(op), piece.length, op.key_size(), true, memory.keys_across);
    bf16_pack_sequence(v, value_stride(op), piece.length, op.computed_values(), true, memory.values_across);
    bf16_pack_sequence(k, key_stride(op), piece.length, op.key_size(), false, memory.keys);
  }

  // Queries [begin, begin + rows) of a head.
  template <bool drops>
  void queries(std::int64_t head, std::int64_t begin, std::int64_t rows) const {
    const std::int64_t first = piece_.first + begin;
    const std::int64_t q_width = op_.q.dim(1), out_width = op_.out.dim(1), out_size = out_width / op_.heads;
    const std::int64_t q_at = first * q_width + head * op_.key_size();
    const std::int64_t out_at = first * out_width + head * out_size;
    const auto *q = op_.q.data<bfloat16>() + q_at, *dout = op_.dout.data<bfloat16>() + out_at;
    const auto* out = op_.out.data<bfloat16>() + out_at;
    ScoreDropout dropout{key_, op_.dropout.site, op_.longest, piece_.length, memory_.bytes};
    if (drops) dropout.begin(head * op_.q.dim(0) + first, rows);
    for (std::int64_t i = 0; i < rows; i += bf16_block) {
      const std::int64_t some = std::min(bf16_block, rows - i);
      products_with_sequence(q + i * q_width, q_width, some, op_.key_size(), memory_.keys_across,
                             memory_.scores);
      products_with_sequence(dout + i * out_width, out_width, some, op_.computed_values(),
                             memory_.values_across, memory_.gradients);
      with_bias(op_, head, [&](const auto& bias) {
        for (std::int64_t r = i; r < i + some; ++r)
          row_of_scores<drops>(head, begin + r, r, bias, dropout, dout + r * out_width, out + r * out_width);
      });
    }
    const bool add = begin > 0 || head > piece_.head_begin;
    gradient_of_sequence(memory_.p, dout, out_width, rows, op_.computed_values(), memory_.dv, add);
    gradient_of_sequence(memory_.ds, q, q_width, rows, op_.key_size(), memory_.dk, add);
    gradient_of_queries(rows, op_.dq.data<bfloat16>() + q_at);
  }

 private:
  // scores (at most 32 rows x length) = x Kᵀ
  void products_with_sequence(const bfloat16* x, std::int64_t ld, std::int64_t rows, std::int64_t width,
                              const bfloat16* panels, float* scores) const {
    bf16_row_product(bf16_rows(x, ld, rows, width, memory_.rest), panels, width, piece_.length, scores,
                     bf16_score_stride(op_.longest), false);
  }

  // P and dS of the query at `place` of its sequence, query `r` of the current block. `scores` and
  // `gradients` contain the products of the 32 queries around it.
  template <bool drops, class Bias>
  void row_of_scores(std::int64_t head, std::int64_t place, std::int64_t r, const Bias& bias,
                     const ScoreDropout& dropout, const bfloat16* dout, const bfloat16* out) const {
    const std::int64_t length = piece_.length, ld = bf16_score_stride(op_.longest), i = r % bf16_block;
    const Row row{op_.log_sum_exp.data<float>()[head * op_.q.dim(0) + piece_.first + place],
                  dot(dout, out, op_.out.dim(1) / op_.heads),
                  static_cast<float>(op_.scale),
                  op_.append_one ? static_cast<float>(dout[op_.out.dim(1) / op_.heads - 1]) : 0.F,
                  static_cast<float>(op_.dropout.scale()),
                  op_.dropout.threshold(),
                  drops ? dropout.row(r) : nullptr};
    const auto score = [&](vec products, std::int64_t j, const auto& at) {
      return bias.add(products * row.scale, j - place, at);
    };
    fetch_part(dout + op_.out.dim(1) / op_.heads, op_.out.dim(1) / op_.heads);  // of the next head
    fetch_part(out + op_.out.dim(1) / op_.heads, op_.out.dim(1) / op_.heads);
    bfloat16 *p = memory_.p.at + r * memory_.p.ld, *ds = memory_.ds.at + r * memory_.ds.ld;
    score_gradients<drops>(row, score, memory_.scores + i * ld, memory_.gradients + i * ld, length, p, ds);
    clear_rest(p, length);
    clear_rest(ds, length);
  }

  // sums (length x width) = pᵀ x, or +=
  void gradient_of_sequence(const Bf16Block& p, const bfloat16* x, std::int64_t ld, std::int64_t rows,
                            std::int64_t width, float* sums, bool add) const {
    const std::int64_t length = piece_.length, steps = whole_blocks(rows) / bf16_block;
    const Bf16Block& across = memory_.across;
    for (std::int64_t i = 0; i < length; i += bf16_block)
      bf16_pack_rows(p.at + i, p.ld, true, std::min(bf16_block, length - i), rows, across.at + i * across.ld,
                     across.ld);
    const std::int64_t sums_apart = whole_blocks(width);
    for (std::int64_t j = 0; j < width; j += bf16_block) {
      bf16_pack_panel(x + j, ld, false, rows, std::min(bf16_block, width - j), memory_.panel);
      for (std::int64_t i = 0; i < length; i += bf16_block)
        bf16_multiply({across.at + i * across.ld, across.ld, steps, nullptr, last_pairs(rows)}, memory_.panel,
                      sums + i * sums_apart + j, sums_apart, add, width - j);
    }
  }

  // dq = dS K
  void gradient_of_queries(std::int64_t rows, bfloat16* dq) const {
    const std::int64_t length = piece_.length, width = op_.key_size(), ld = whole_blocks(width);
    const Bf16Block& ds = memory_.ds;
    for (std::int64_t i = 0; i < rows; i += bf16_block) {
      bf16_row_product(
          {ds.at + i * ds.ld, ds.ld, whole_blocks(length) / bf16_block, nullptr, last_pairs(length)},
          memory_.keys, length, width, memory_.sums, ld, false);
      copy_rows(memory_.sums, ld, std::min(bf16_block, rows - i), width, dq + i * op_.q.dim(1), op_.q.dim(1));
    }
  }

  const AttentionBackward& op_;
  const Memory& memory_;
  const AttentionPiece& piece_;
  DropoutKey key_;
};
}  // namespace

std::size_t bf16_attention_backward_scratch(const AttentionBackward& op) {
  Scratch shared, thread;
  shared.floats(group_floats(op) * op.key_size());
  shared.floats(group_floats(op) * op.computed_values());
  const Memory memory(op, thread);
  return shared.bytes() + thread.bytes() * static_cast<std::size_t>(thread_limit());
}

void bf16_attention_backward(const AttentionBackward& op, const KernelContext& context) {
  const std::int64_t tokens = op.q.dim(0), key_size = op.key_size(), value_size = op.computed_values();
  Scratch shared(context.scratch);
  float* dk_sums = shared.floats(group_floats(op) * key_size);
  float* dv_sums = shared.floats(group_floats(op) * value_size);
  const bool grouped = sums_groups(op);
  const std::int64_t groups = head_groups(op), block = most_queries(op.longest);
  const SharedGradient<bfloat16> dk{op.dk,  key_size, key_stride(op),
                                    tokens, groups,   grouped ? dk_sums : nullptr};
  const SharedGradient<bfloat16> dv{op.dv,  value_size, value_stride(op),
                                    tokens, groups,     grouped ? dv_sums : nullptr};
  const std::size_t each =
      (context.scratch_bytes - shared.bytes()) / static_cast<std::size_t>(thread_limit());
  for_each_piece(op, [&](const AttentionPiece& piece) {
    Scratch own(context.scratch + shared.bytes() + each * static_cast<std::size_t>(piece.thread));
    const Memory memory(op, own);
    const Sequence sequence(op, memory, piece);
    const Bf16Tiles tiles;
    for (std::int64_t head = piece.head_begin; head < piece.head_end; ++head) {
      for (std::int64_t begin = 0; begin < piece.queries; begin += block) {
        const std::int64_t rows = std::min(block, piece.queries - begin);
        if (op.dropout.active()) {
          sequence.queries<true>(head, begin, rows);
        } else {
          sequence.queries<false>(head, begin, rows);
        }
      }
    }
    const std::int64_t kv = kv_head(op, piece.head_begin);
    dk.keep(piece, kv, memory.dk, whole_blocks(key_size));
    dv.keep(piece, kv, memory.dv, whole_blocks(value_size));
  });
  dk.add_groups();
  dv.add_groups();
  clear_other_rows<bfloat16>(op, op.dq);
  clear_padding<bfloat16>(op.dk, tokens, op.kv_heads() * key_size, key_stride(op), op.sequence_offsets);
  clear_padding<bfloat16>(op.dv, tokens, op.kv_heads() * value_size, value_stride(op), op.sequence_offsets);
  clear_other_values<bfloat16>(op);
}

COMERA_CPU_END
