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
  const std::int64_t size = op.q.dim(1) / op.heads, block = query_rows(op.longest);
  Memory memory;
  memory.keys_across = scratch.floats(panels_size(size, op.longest));
  memory.values_across = scratch.floats(panels_size(size, op.longest));
  memory.keys = scratch.floats(panels_size(op.longest, size));
  memory.queries = scratch.floats(panels_size(block, size));
  memory.dout = scratch.floats(panels_size(block, size));
  memory.p = scratch.floats(block * score_apart(op.longest));
  memory.ds = scratch.floats(block * score_apart(op.longest));
  memory.bytes = reinterpret_cast<std::uint8_t*>(scratch.floats(dropout_room(op.longest) / 4 + 1));
  return memory;
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
  float kept;
  std::uint32_t threshold;
  const std::uint8_t* bytes;  // or nullptr
};

// p: scores -> dropped P;   ds: gradient of dropped P -> gradient of q kᵀ
void score_gradients(const Row& row, float* p, float* ds, std::int64_t length) {
  const std::int64_t whole = length / lanes * lanes, left = length - whole;
  const auto gradients = [&](vec score, vec dp, std::int64_t j, vec& dropped, vec& gradient) {
    const vec probability = exp(score - row.log_sum_exp);
    const vec factor = row.bytes == nullptr ? splat(1) : keeps(row.bytes + j, row.threshold, row.kept);
    dropped = probability * factor;
    gradient = probability * (dp * factor - row.d) * row.scale;
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
  Scratch scratch;
  take(op, scratch);
  return scratch.bytes() * static_cast<std::size_t>(thread_limit());
}

void attention_backward(const AttentionBackward& op, const KernelContext& context) {
  const std::int64_t width = op.q.dim(1), tokens = op.q.dim(0), size = width / op.heads;
  const std::int64_t block = query_rows(op.longest), apart = score_apart(op.longest);
  const std::size_t thread_bytes = context.scratch_bytes / static_cast<std::size_t>(thread_limit());
  const DropoutKey key = dropout_key(op);

  for_each_head(op, [&](std::int64_t first, std::int64_t length, std::int64_t head, int thread) {
    Scratch scratch(context.scratch + thread_bytes * static_cast<std::size_t>(thread));
    const Memory memory = take(op, scratch);
    const std::int64_t at = first * width + head * size;
    const auto of_head = [&](const Tensor& tensor, std::int64_t row = 0) {
      return tensor.data<float>() + at + row * width;
    };
    pack_transposed(of_head(op.k), width, size, length, memory.keys_across);
    pack_transposed(of_head(op.v), width, size, length, memory.values_across);
    pack(of_head(op.k), width, length, size, memory.keys);
    for (std::int64_t begin = 0; begin < length; begin += block) {
      const std::int64_t rows = std::min(block, length - begin);
      const float* q = of_head(op.q, begin);
      const float* dout = of_head(op.dout, begin);
      const float* out = of_head(op.out, begin);
      multiply_into({q, width}, memory.keys_across, rows, length, size,
                    {memory.p, apart, Into::set, static_cast<float>(op.scale)});
      multiply_into({dout, width}, memory.values_across, rows, length, size, {memory.ds, apart, Into::set});
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t place = head * tokens + first + begin + i;
        Row row{op.log_sum_exp.data<float>()[place],
                dot(dout + i * width, out + i * width, size),
                static_cast<float>(op.scale),
                static_cast<float>(op.dropout.scale()),
                op.dropout.threshold(),
                nullptr};
        if (op.dropout.active()) {
          row.bytes = dropout_run(key, op.dropout.site, static_cast<std::uint64_t>(place * op.longest),
                                  length, memory.bytes);
        }
        score_gradients(row, memory.p + i * apart, memory.ds + i * apart, length);
      }
      const Into into = begin == 0 ? Into::set : Into::add;
      pack(dout, width, rows, size, memory.dout);
      multiply_into({memory.p, 1, apart}, memory.dout, length, size, rows, {of_head(op.dv), width, into});
      pack(q, width, rows, size, memory.queries);
      multiply_into({memory.ds, 1, apart}, memory.queries, length, size, rows, {of_head(op.dk), width, into});
      multiply_into({memory.ds, apart}, memory.keys, rows, size, length,
                    {of_head(op.dq, begin), width, Into::set});
    }
  });
  for (const Tensor& gradient : {op.dq, op.dk, op.dv}) clear_padding(gradient, op.sequence_offsets);
}

COMERA_CPU_END
