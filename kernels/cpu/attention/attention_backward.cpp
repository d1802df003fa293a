#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_rows.h"
#include "kernels/cpu/kernels.h"

COMERA_CPU_BEGIN

namespace {
// Thread-local.
struct Memory {
  float* keys_across = nullptr;    // Kᵀ packed
  float* values_across = nullptr;  // Vᵀ packed
  float* keys = nullptr;           // K packed
  float* queries = nullptr;        // of a block, packed
  float* dout = nullptr;           // of a block, packed
  float* p = nullptr;              // P, then dropped P
  float* ds = nullptr;             // dP, then dS
  // For a narrow type only: rows of a block and sums of a sequence in single precision.
  float* wide_queries = nullptr;
  float* wide_dout = nullptr;
  float* dk = nullptr;
  float* dv = nullptr;
  std::uint8_t* bytes = nullptr;
};

Memory take(const AttentionBackward& op, Scratch& scratch) {
  const std::int64_t block = query_rows(op.longest);
  Memory memory;
  memory.keys_across = scratch.floats(panels_size(op.key_size(), op.longest));
  memory.values_across = scratch.floats(panels_size(op.computed_values(), op.longest));
  memory.keys = scratch.floats(panels_size(op.longest, op.key_size()));
  memory.queries = scratch.floats(panels_size(block, op.key_size()));
  memory.dout = scratch.floats(panels_size(block, op.computed_values()));
  memory.p = scratch.floats(block * score_stride(op.longest));
  memory.ds = scratch.floats(block * score_stride(op.longest));
  memory.wide_queries = scratch.floats(widened_size(op, block, op.key_size()));
  memory.wide_dout = scratch.floats(widened_size(op, block, op.computed_values()));
  memory.dk = scratch.floats(widened_size(op, op.longest, op.key_size()));
  memory.dv = scratch.floats(widened_size(op, op.longest, op.computed_values()));
  memory.bytes = reinterpret_cast<std::uint8_t*>(scratch.floats(ScoreDropout::room(op.longest) / 4 + 1));
  return memory;
}

// C = A B in one pass over k, or in several if C can hold partial sums.
void set_product(const Left& left, const float* panels, std::int64_t m, std::int64_t n, std::int64_t k,
                 const StoreTile& c) {
  multiply_into(left, panels, m, n, k, c);
}
void set_product(const Left& left, const float* panels, std::int64_t m, std::int64_t n, std::int64_t k,
                 const StoreTileAs<bfloat16>& c) {
  multiply(left, panels, m, n, k, c);
}

}  // namespace

std::size_t attention_backward_scratch(const AttentionBackward& op) {
  Scratch scratch, sums;
  take(op, scratch);
  sums.floats(group_floats(op) * op.key_size());
  sums.floats(group_floats(op) * op.computed_values());
  return scratch.bytes() * static_cast<std::size_t>(thread_limit()) + sums.bytes();
}

template <class T>
void attention_backward(const AttentionBackward& op, const KernelContext& context) {
  const std::int64_t tokens = op.q.dim(0), q_width = op.q.dim(1), out_width = op.out.dim(1);
  const std::int64_t key_size = op.key_size(), value_size = op.computed_values(),
                     out_size = out_width / op.heads;
  const std::int64_t k_stride = key_stride(op), v_stride = value_stride(op);
  const std::int64_t block = query_rows(op.longest), ld = score_stride(op.longest);
  const DropoutKey key = dropout_key(op);
  const bool drops = op.dropout.active();
  const std::int64_t groups = head_groups(op);
  Scratch sums(context.scratch);
  float* dk_sums = sums.floats(group_floats(op) * key_size);
  float* dv_sums = sums.floats(group_floats(op) * value_size);
  const bool grouped = sums_groups(op);
  const SharedGradient<T> dk{op.dk, key_size, k_stride, tokens, groups, grouped ? dk_sums : nullptr};
  const SharedGradient<T> dv{op.dv, value_size, v_stride, tokens, groups, grouped ? dv_sums : nullptr};
  std::byte* of_threads = context.scratch + sums.bytes();
  const std::size_t thread_bytes =
      (context.scratch_bytes - sums.bytes()) / static_cast<std::size_t>(thread_limit());

  for_each_piece(op, [&](const AttentionPiece& piece) {
    Scratch scratch(of_threads + thread_bytes * static_cast<std::size_t>(piece.thread));
    const Memory memory = take(op, scratch);
    const std::int64_t kv = kv_head(op, piece.head_begin), length = piece.length;
    const T* k = op.k.data<T>() + piece.first * k_stride + kv * key_size;
    const T* v = op.v.data<T>() + piece.first * v_stride + kv * value_size;
    pack_transposed(k, k_stride, key_size, length, memory.keys_across);
    pack_transposed(v, v_stride, value_size, length, memory.values_across);
    pack(k, k_stride, length, key_size, memory.keys);
    for (std::int64_t head = piece.head_begin; head < piece.head_end; ++head) {
      for (std::int64_t begin = 0; begin < piece.queries; begin += block) {
        const std::int64_t rows = std::min(block, piece.queries - begin), first = piece.first + begin;
        const std::int64_t q_at = first * q_width + head * key_size;
        const std::int64_t out_at = first * out_width + head * out_size;
        const T* q = op.q.data<T>() + q_at;
        const T* dout = op.dout.data<T>() + out_at;
        const T* out = op.out.data<T>() + out_at;
        multiply_into(widened(q, q_width, rows, key_size, memory.wide_queries), memory.keys_across, rows,
                      length, key_size, {memory.p, ld, Into::set, static_cast<float>(op.scale)});
        multiply_into(widened(dout, out_width, rows, value_size, memory.wide_dout), memory.values_across,
                      rows, length, value_size, {memory.ds, ld, Into::set});
        ScoreDropout dropout{key, op.dropout.site, op.longest, length, memory.bytes};
        if (drops) dropout.begin(head * tokens + first, rows);
        with_bias(op, head, [&](const auto& bias) {
          for (std::int64_t i = 0; i < rows; ++i) {
            const std::int64_t place = head * tokens + first + i;
            const T* dout_row = dout + i * out_width;
            fetch_part<true>(op.dq.data<T>() + q_at + i * q_width, key_size);
            fetch_part(q + key_size + i * q_width, key_size);  // of the next head, if this is not the last
            fetch_part(dout_row + out_size, out_size);
            fetch_part(out + out_size + i * out_width, out_size);
            Row row{op.log_sum_exp.data<float>()[place],
                    dot(dout_row, out + i * out_width, out_size),
                    static_cast<float>(op.scale),
                    op.append_one ? static_cast<float>(dout_row[out_size - 1]) : 0.F,
                    static_cast<float>(op.dropout.scale()),
                    op.dropout.threshold(),
                    nullptr};
            const auto score = [&](vec products, std::int64_t j, const auto& at) {
              return bias.add(products, j - begin - i, at);
            };
            float *p = memory.p + i * ld, *ds = memory.ds + i * ld;
            if (drops) {
              row.bytes = dropout.row(i);
              score_gradients<true>(row, score, p, ds, length, p, ds);
            } else {
              score_gradients<false>(row, score, p, ds, length, p, ds);
            }
          }
        });
        const Into into = begin == 0 && head == piece.head_begin ? Into::set : Into::add;
        pack(dout, out_width, rows, value_size, memory.dout);
        multiply_into({memory.p, 1, ld}, memory.dout, length, value_size, rows,
                      {dv.at(piece, kv, memory.dv), dv.rows_apart(), into});
        pack(q, q_width, rows, key_size, memory.queries);
        multiply_into({memory.ds, 1, ld}, memory.queries, length, key_size, rows,
                      {dk.at(piece, kv, memory.dk), dk.rows_apart(), into});
        set_product({memory.ds, ld}, memory.keys, rows, key_size, length,
                    StoreTileAs<T>{op.dq.data<T>() + q_at, q_width, Into::set});
      }
    }
    dk.finish(piece, kv, memory.dk);
    dv.finish(piece, kv, memory.dv);
  });
  dk.add_groups();
  dv.add_groups();
  clear_other_rows<T>(op, op.dq);
  clear_padding<T>(op.dk, tokens, op.kv_heads() * key_size, k_stride, op.sequence_offsets);
  clear_padding<T>(op.dv, tokens, op.kv_heads() * value_size, v_stride, op.sequence_offsets);
  clear_other_values<T>(op);
}

COMERA_FOR_EACH_TYPE(AttentionBackward, attention_backward)

COMERA_CPU_END
