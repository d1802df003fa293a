#include "kernels/cpu/attention.h"
#include "kernels/cpu/kernels.h"

COMERA_CPU_BEGIN

namespace {
// Of one thread.
struct Memory {
  float* keys_across = nullptr;    // Kᵀ packed
  float* values_across = nullptr;  // Vᵀ packed
  float* keys = nullptr;           // K packed
  float* queries = nullptr;        // of a block, packed
  float* dout = nullptr;           // of a block, packed
  float* p = nullptr;              // P, then dropped P
  float* ds = nullptr;             // dP, then dS
  std::uint8_t* bytes = nullptr;
};

Memory take(const AttentionBackward& op, Scratch& scratch) {
  const std::int64_t block = query_rows(op.longest);
  Memory memory;
  memory.keys_across = scratch.floats(panels_size(op.key_size(), op.longest));
  memory.values_across = scratch.floats(panels_size(op.value_size(), op.longest));
  memory.keys = scratch.floats(panels_size(op.longest, op.key_size()));
  memory.queries = scratch.floats(panels_size(block, op.key_size()));
  memory.dout = scratch.floats(panels_size(block, op.value_size()));
  memory.p = scratch.floats(block * score_stride(op.longest));
  memory.ds = scratch.floats(block * score_stride(op.longest));
  memory.bytes = reinterpret_cast<std::uint8_t*>(scratch.floats(ScoreDropout::room(op.longest) / 4 + 1));
  return memory;
}

// Gradients of keys or values. Where several groups of heads share them, each group has sums of its own in
// scratch, which are added in order at the end.
struct SharedGradient {
  const Tensor& gradient;
  std::int64_t width, apart;  // of one head; of gradient's rows
  std::int64_t rows, groups;
  float* sums;  // (groups, rows, width), or nullptr

  float* at(std::int64_t group, std::int64_t kv, std::int64_t row) const {
    if (sums == nullptr) return gradient.data<float>() + row * apart + kv * width;
    return sums + (group * rows + row) * width;
  }
  std::int64_t rows_apart() const { return sums == nullptr ? apart : width; }

  void add_groups() const {
    if (sums == nullptr) return;
    constexpr std::int64_t together = 128;
    parallel_pieces((rows + together - 1) / together, thread_limit(), [&](std::int64_t piece, int) {
      for (std::int64_t t = piece * together; t < std::min(rows, (piece + 1) * together); ++t) {
        float* to = gradient.data<float>() + t * apart;
        for (std::int64_t c = 0; c < width; ++c) {
          float total = at(0, 0, t)[c];
          for (std::int64_t g = 1; g < groups; ++g) total += at(g, 0, t)[c];
          to[c] = total;
        }
      }
    });
  }
};

bool sums_groups(const AttentionBackward& op) { return op.shared_keys && head_groups(op) > 1; }
std::int64_t group_floats(const AttentionBackward& op) {
  return sums_groups(op) ? head_groups(op) * op.q.dim(0) : 0;
}

float dot(const float* a, const float* b, std::int64_t count) {
  vec total = splat(0);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) total += load(a + i) * load(b + i);
  float rest = 0;
  for (; i < count; ++i) rest += a[i] * b[i];
  return sum(total) + rest;
}

struct Row {
  float log_sum_exp;
  float d;  // Σ_j P_j dP_j = dout · out
  float scale;
  float dsum;  // gradient of the sum of dropped P
  float kept;
  std::uint32_t threshold;
  const std::uint8_t* bytes;  // or nullptr
};

// p: scores -> dropped P;   ds: gradient of dropped P -> gradient of q kᵀ
template <bool drops>
void score_gradients(const Row& row, float* p, float* ds, std::int64_t length) {
  const std::int64_t whole = length / lanes * lanes, left = length - whole;
  const auto gradients = [&](vec score, vec dp, std::int64_t j, vec& dropped, vec& gradient) {
    const vec probability = exp(score - row.log_sum_exp);
    const vec factor = drops ? keeps(row.bytes + j, row.threshold, row.kept) : splat(1);
    dropped = probability * factor;
    gradient = probability * ((dp + row.dsum) * factor - row.d) * row.scale;
  };
  vec dropped, gradient;
  for (std::int64_t j = 0; j < whole; j += lanes) {
    gradients(load(p + j), load(ds + j), j, dropped, gradient);
    store(p + j, dropped);
    store(ds + j, gradient);
  }
  if (left > 0) {
    gradients(load_first(p + whole, left), load_first(ds + whole, left), whole, dropped, gradient);
    store_first(p + whole, dropped, left);
    store_first(ds + whole, gradient, left);
  }
}
}  // namespace

std::size_t attention_backward_scratch(const AttentionBackward& op) {
  Scratch scratch, sums;
  take(op, scratch);
  sums.floats(group_floats(op) * op.key_size());
  sums.floats(group_floats(op) * op.value_size());
  return scratch.bytes() * static_cast<std::size_t>(thread_limit()) + sums.bytes();
}

void attention_backward(const AttentionBackward& op, const KernelContext& context) {
  const std::int64_t tokens = op.q.dim(0), q_width = op.q.dim(1), out_width = op.out.dim(1);
  const std::int64_t key_size = op.key_size(), value_size = op.value_size(), out_size = out_width / op.heads;
  const std::int64_t k_stride = key_stride(op), v_stride = value_stride(op);
  const std::int64_t block = query_rows(op.longest), apart = score_stride(op.longest);
  const DropoutKey key = dropout_key(op);
  const bool drops = op.dropout.active();
  const std::int64_t groups = head_groups(op);
  Scratch sums(context.scratch);
  float* dk_sums = sums.floats(group_floats(op) * key_size);
  float* dv_sums = sums.floats(group_floats(op) * value_size);
  const bool grouped = sums_groups(op);
  const SharedGradient dk{op.dk, key_size, k_stride, tokens, groups, grouped ? dk_sums : nullptr};
  const SharedGradient dv{op.dv, value_size, v_stride, tokens, groups, grouped ? dv_sums : nullptr};
  std::byte* of_threads = context.scratch + sums.bytes();
  const std::size_t thread_bytes =
      (context.scratch_bytes - sums.bytes()) / static_cast<std::size_t>(thread_limit());

  for_each_piece(op, [&](const AttentionPiece& piece) {
    Scratch scratch(of_threads + thread_bytes * static_cast<std::size_t>(piece.thread));
    const Memory memory = take(op, scratch);
    const std::int64_t kv = kv_head(op, piece.head_begin), length = piece.length;
    const float* k = op.k.data<float>() + piece.first * k_stride + kv * key_size;
    const float* v = op.v.data<float>() + piece.first * v_stride + kv * value_size;
    pack_transposed(k, k_stride, key_size, length, memory.keys_across);
    pack_transposed(v, v_stride, value_size, length, memory.values_across);
    pack(k, k_stride, length, key_size, memory.keys);
    for (std::int64_t head = piece.head_begin; head < piece.head_end; ++head) {
      for (std::int64_t begin = 0; begin < length; begin += block) {
        const std::int64_t rows = std::min(block, length - begin), first = piece.first + begin;
        const std::int64_t q_at = first * q_width + head * key_size;
        const std::int64_t out_at = first * out_width + head * out_size;
        const float* q = op.q.data<float>() + q_at;
        const float* dout = op.dout.data<float>() + out_at;
        const float* out = op.out.data<float>() + out_at;
        multiply_into({q, q_width}, memory.keys_across, rows, length, key_size,
                      {memory.p, apart, Into::set, static_cast<float>(op.scale)});
        multiply_into({dout, out_width}, memory.values_across, rows, length, value_size,
                      {memory.ds, apart, Into::set});
        ScoreDropout dropout{key, op.dropout.site, op.longest, length, memory.bytes};
        if (drops) dropout.begin(head * tokens + first, rows);
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::int64_t place = head * tokens + first + i;
          const float* dout_row = dout + i * out_width;
          Row row{op.log_sum_exp.data<float>()[place],
                  dot(dout_row, out + i * out_width, out_size),
                  static_cast<float>(op.scale),
                  op.append_one ? dout_row[value_size] : 0.F,
                  static_cast<float>(op.dropout.scale()),
                  op.dropout.threshold(),
                  nullptr};
          if (drops) {
            row.bytes = dropout.row(i);
            score_gradients<true>(row, memory.p + i * apart, memory.ds + i * apart, length);
          } else {
            score_gradients<false>(row, memory.p + i * apart, memory.ds + i * apart, length);
          }
        }
        const Into into = begin == 0 && head == piece.head_begin ? Into::set : Into::add;
        pack(dout, out_width, rows, value_size, memory.dout);
        multiply_into({memory.p, 1, apart}, memory.dout, length, value_size, rows,
                      {dv.at(piece.group, kv, piece.first), dv.rows_apart(), into});
        pack(q, q_width, rows, key_size, memory.queries);
        multiply_into({memory.ds, 1, apart}, memory.queries, length, key_size, rows,
                      {dk.at(piece.group, kv, piece.first), dk.rows_apart(), into});
        multiply_into({memory.ds, apart}, memory.keys, rows, key_size, length,
                      {op.dq.data<float>() + q_at, q_width, Into::set});
      }
    }
  });
  dk.add_groups();
  dv.add_groups();
  clear_padding(op.dq, tokens, q_width, q_width, op.sequence_offsets);
  clear_padding(op.dk, tokens, op.kv_heads() * key_size, k_stride, op.sequence_offsets);
  clear_padding(op.dv, tokens, op.kv_heads() * value_size, v_stride, op.sequence_offsets);
}

COMERA_CPU_END
