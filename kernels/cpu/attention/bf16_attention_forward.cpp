#include "kernels/cpu/attention/bf16_attention.h"

COMERA_CPU_BEGIN

namespace {
// Thread-local, for blocks of 32 queries.
struct Memory {
  bfloat16 *keys, *values;  // Kᵀ and V packed
  bfloat16* rest;
  Bf16Block p;
  float *scores, *out;
  std::uint8_t* bytes;

  Memory(const AttentionForward& op, Scratch& scratch)
      : keys(scratch.narrow(whole_blocks(op.key_size()) * whole_blocks(op.longest))),
        values(scratch.narrow(whole_blocks(op.longest) * whole_blocks(op.computed_values()))),
        rest(scratch.narrow(bf16_block * whole_blocks(op.key_size()))),
        p(bf16_block, op.longest, scratch),
        scores(scratch.floats(bf16_block * bf16_score_stride(op.longest))),
        out(scratch.floats(bf16_block * whole_blocks(op.computed_values()))),
        bytes(reinterpret_cast<std::uint8_t*>(scratch.floats(ScoreDropout::room(op.longest) / 4 + 1))) {}
};

class Sequence {
 public:
  Sequence(const AttentionForward& op, const Memory& memory, const AttentionPiece& piece)
      : op_(op), memory_(memory), piece_(piece), key_(dropout_key(op)) {
    const std::int64_t kv = kv_head(op, piece.head_begin);
    bf16_pack_sequence(op.k.data<bfloat16>() + piece.first * key_stride(op) + kv * op.key_size(),
                       key_stride(op), piece.length, op.key_size(), true, memory.keys);
    bf16_pack_sequence(op.v.data<bfloat16>() + piece.first * value_stride(op) + kv * op.computed_values(),
                       value_stride(op), piece.length, op.computed_values(), false, memory.values);
  }

  // Queries [begin, begin + rows) of a head, at most 32.
  template <bool drops>
  void queries(std::int64_t head, std::int64_t begin, std::int64_t rows) const {
    const std::int64_t length = piece_.length, first = piece_.first + begin, q_width = op_.q.dim(1);
    const std::int64_t key_size = op_.key_size(), value_size = op_.computed_values();
    const std::int64_t ld = bf16_score_stride(op_.longest), place = head * op_.q.dim(0) + first;
    const Bf16Rows q = bf16_rows(op_.q.data<bfloat16>() + first * q_width + head * key_size, q_width, rows,
                                 key_size, memory_.rest);
    bf16_row_product(q, memory_.keys, key_size, length, memory_.scores, ld, false);
    ScoreDropout dropout{key_, op_.dropout.site, op_.longest, length, memory_.bytes};
    if (drops) dropout.begin(place, rows);
    RowSums sums[bf16_block];
    with_bias(op_, head, [&](const auto& bias) {
      for (std::int64_t i = 0; i < rows; ++i) {
        float* scores = memory_.scores + i * ld;
        const auto score = [&](vec products, std::int64_t j, const auto& at) {
          return bias.add(products * static_cast<float>(op_.scale), j - begin - i, at);
        };
        bfloat16* p = memory_.p.at + i * memory_.p.ld;
        sums[i] = softmax_row<drops>(scores, score, length, drops ? dropout.row(i) : nullptr,
                                     op_.dropout.threshold(), p);
        clear_rest(p, length);
      }
    });
    const std::int64_t out_apart = whole_blocks(value_size);
    bf16_row_product(
        {memory_.p.at, memory_.p.ld, whole_blocks(length) / bf16_block, nullptr, last_pairs(length)},
        memory_.values, length, value_size, memory_.out, out_apart, false);
    const std::int64_t out_width = op_.out.dim(1), out_size = out_width / op_.heads;
    const float kept = drops ? static_cast<float>(op_.dropout.scale()) : 1.F;
    for (std::int64_t i = 0; i < rows; ++i) {
      bfloat16* out = op_.out.data<bfloat16>() + (first + i) * out_width + head * out_size;
      op_.log_sum_exp.data<float>()[place + i] = sums[i].log_sum_exp();
      const float scale = kept / sums[i].all;
      const float* from = memory_.out + i * out_apart;
      for_columns(0, value_size,
                  [&](std::int64_t c, auto at) { at.store(out + c, at.load(from + c) * scale); });
      end_row(op_, out, sums[i].kept * scale);
    }
  }

 private:
  const AttentionForward& op_;
  const Memory& memory_;
  const AttentionPiece& piece_;
  DropoutKey key_;
};
}  // namespace

std::size_t bf16_attention_forward_scratch(const AttentionForward& op) {
  Scratch scratch;
  const Memory memory(op, scratch);
  return scratch.bytes() * static_cast<std::size_t>(thread_limit());
}

void bf16_attention_forward(const AttentionForward& op, const KernelContext& context) {
  const std::size_t thread_bytes = context.scratch_bytes / static_cast<std::size_t>(thread_limit());
  for_each_piece(op, [&](const AttentionPiece& piece) {
    Scratch scratch(context.scratch + thread_bytes * static_cast<std::size_t>(piece.thread));
    const Memory memory(op, scratch);
    const Sequence sequence(op, memory, piece);
    const Bf16Tiles tiles;
    for (std::int64_t head = piece.head_begin; head < piece.head_end; ++head) {
      for (std::int64_t begin = 0; begin < piece.queries; begin += bf16_block) {
        const std::int64_t rows = std::min(bf16_block, piece.queries - begin);
        if (op.dropout.active()) {
          sequence.queries<true>(head, begin, rows);
        } else {
          sequence.queries<false>(head, begin, rows);
        }
      }
    }
  });
  clear_other_rows<bfloat16>(op, op.out);
  clear_other_sums(op);
}

COMERA_CPU_END
