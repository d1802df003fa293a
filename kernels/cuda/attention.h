#pragma once

// What the kernels of attention share. A block of four warps owns 64 rows of one sequence and one head (or of
// all heads that share keys): 16 rows a warp, as fragments. It goes over the other side of the scores some
// rows at a time, which lie in shared memory. Scores are held in registers only and computed again where they
// are needed; every sum has one owner and a fixed order.

#include <algorithm>

#include "kernels/cuda/tensor_cores.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/attention.h"

namespace comera::COMERA_CUDA {

inline constexpr int attention_warps = 4;
inline constexpr int attention_threads = attention_warps * warp;
inline constexpr int own_rows = 16 * attention_warps;  // of a block
inline constexpr int most_head_size = 128;

// Heads are padded with zeros to D = 32, 64 or 128 in shared memory.
template <class Math, int D>
struct AttentionTiles {
  using T = typename Math::Element;
  static constexpr int other_rows = std::min(64, 8192 / (D * static_cast<int>(sizeof(T))));  // at a time
  static constexpr int stride = D + 8;
  static constexpr int own_elements = own_rows * stride, other_elements = other_rows * stride;
};

// Rows of heads in memory.
template <class T>
struct HeadRows {
  T* at = nullptr;
  std::int64_t ld = 0;  // elements from row to row
  int size = 0;         // of a head
  bool vector = false;  // every head's rows begin at multiples of 16 bytes and are whole ones

  __device__ __forceinline__ T* row(std::int64_t row, int head) const {
    return at + row * ld + std::int64_t{head} * size;
  }
};

// Tensors of an operation, of either direction.
template <class T>
struct Attention {
  HeadRows<T> q, k, v, out;
  HeadRows<T> dout, dq, dk, dv;  // backward only
  float* log_sum_exp = nullptr;
  float* delta = nullptr;  // (heads, T): Σ_c out dout, left by the first kernel of backward for the second
  const float* slopes = nullptr;  // (heads, 2), or null
  const std::int32_t* offsets = nullptr;
  std::int64_t rows = 0;  // T
  std::int64_t longest = 0;
  int sequences = 0, heads = 0, kv_heads = 0;
  bool append_one = false;
  float scale = 1;
  DropoutMask mask;

  __device__ __forceinline__ int kv_head(int head) const { return kv_heads == 1 ? 0 : head; }
};

template <class T>
HeadRows<T> head_rows(const Tensor& tensor, std::int64_t ld, std::int64_t size) {
  constexpr std::int64_t whole = 16 / sizeof(T);
  return {tensor.data<T>(), ld, static_cast<int>(size),
          ld % whole == 0 && size % whole == 0 && reinterpret_cast<std::uintptr_t>(tensor.raw()) % 16 == 0};
}

template <class T, class Operation>
Attention<T> attention_of(const Operation& op) {
  Attention<T> made;
  made.q = head_rows<T>(op.q, op.q.dim(1), op.key_size());
  made.k = head_rows<T>(op.k, key_stride(op), op.key_size());
  made.v = head_rows<T>(op.v, value_stride(op), op.value_size());
  made.out = head_rows<T>(op.out, op.out.dim(1), op.out.dim(1) / op.heads);
  made.log_sum_exp = op.log_sum_exp.template data<float>();
  if (op.slopes) made.slopes = op.slopes.template data<float>();
  made.offsets = op.sequence_offsets.template data<std::int32_t>();
  made.rows = op.q.dim(0);
  made.longest = op.longest;
  made.sequences = static_cast<int>(op.sequence_offsets.elements() - 1);
  made.heads = static_cast<int>(op.heads);
  made.kv_heads = static_cast<int>(op.kv_heads());
  made.append_one = op.append_one;
  made.scale = static_cast<float>(op.scale);
  made.mask = mask_of(op.dropout, op.step_inputs);
  return made;
}

// Sequences and one more block for the padding; heads; parts of the longest sequence.
template <class Operation>
Shape3 attention_grid(const Operation& op, std::int64_t heads) {
  return {op.sequence_offsets.elements(), heads, blocks_for(op.longest, own_rows)};
}

// kernel(D) for the smallest D that holds a head.
template <class Operation, class Kernel>
void with_head_size(const Operation& op, const Kernel& kernel) {
  const std::int64_t size = std::max(op.key_size(), op.out.dim(1) / op.heads);
  COMERA_CHECK(size <= most_head_size,
               "attention on a GPU takes heads of up to {} numbers, not {}: use more heads", most_head_size,
               size);
  if (size <= 32)
    kernel(std::integral_constant<int, 32>{});
  else if (size <= 64)
    kernel(std::integral_constant<int, 64>{});
  else
    kernel(std::integral_constant<int, 128>{});
}

// Rows [first, first + rows) of a head into shared memory: zeros beyond the sequence's end and the head's
// width, but ones in the column behind it if `ones`. Those who read must meet the block's barrier first.
template <int D, class T>
__device__ __forceinline__ void load_rows(T* to, const HeadRows<T>& from, int head, bool ones,
                                          std::int64_t begin, int length, int first, int rows) {
  constexpr int V = 16 / sizeof(T), chunks = D / V, stride = D + 8;
  for (int i = static_cast<int>(threadIdx.x); i < rows * chunks; i += attention_threads) {
    const int row = i / chunks, column = i % chunks * V;
    T* place = to + row * stride + column;
    const bool real = first + row < length;
    const T* source = from.row(begin + first + row, head) + column;
    if (real && from.vector && column < from.size) {
      *reinterpret_cast<Packed<T, V>*>(place) = *reinterpret_cast<const Packed<T, V>*>(source);
      continue;
    }
    Packed<T, V> packed;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      packed.at[k] = T(0.F);
      if (real && column + k < from.size) packed.at[k] = source[k];
      if (real && ones && column + k == from.size) packed.at[k] = T(1.F);
    }
    *reinterpret_cast<Packed<T, V>*>(place) = packed;
  }
}

// A warp's 16 rows of fragments, each times `factor` of its half, into rows of a head that the sequence has.
template <int D, class T>
__device__ __forceinline__ void store_rows(const HeadRows<T>& to, int head, std::int64_t begin, int length,
                                           int first, const TileC (&tiles)[D / 8], const float (&factor)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + fragment_row() + 8 * half;
    if (row >= length) continue;
    T* at = to.row(begin + row, head);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const int column = 8 * n + fragment_column();
      const float a = tiles[n].at[2 * half] * factor[half], b = tiles[n].at[2 * half + 1] * factor[half];
      if (to.vector) {
        if (column < to.size) store(at + column, Values<2>{{a, b}});
      } else {
        if (column < to.size) at[column] = T(a);
        if (column + 1 < to.size) at[column + 1] = T(b);
      }
    }
  }
}

// Zeros in the rows that no sequence has: the work of blocks (sequences, …, …).
template <class T>
__device__ __forceinline__ void clear_padding(const HeadRows<T>& to, int heads, std::int64_t used,
                                              std::int64_t rows) {
  const std::int64_t width = std::int64_t{heads} * to.size;
  const std::int64_t blocks = std::int64_t{gridDim.y} * gridDim.z;
  for (std::int64_t row = used + blockIdx.y + gridDim.y * blockIdx.z; row < rows; row += blocks)
    for (std::int64_t column = threadIdx.x; column < width; column += attention_threads)
      to.at[row * to.ld + column] = T(0.F);
}

// The factors of dropout of one row of scores; decisions come sixteen at a time.
class DropoutRow {
 public:
  __device__ __forceinline__ DropoutRow(const DropoutMask& mask, const DropoutKey& key)
      : mask_(mask), key_(key) {}
  // The place of key 0 of that row: (head T + row) longest.
  __device__ __forceinline__ void begin(std::int64_t element) {
    element_ = element;
    block_ = -1;
  }
  __device__ __forceinline__ float factor(int key) {
    const std::int64_t element = element_ + key;
    const int block = static_cast<int>(element / 16 - element_ / 16);
    if (block != block_) {
      block_ = block;
      bytes_ = dropout_bytes(key_, mask_.site, static_cast<std::uint32_t>(element / 16));
    }
    const std::uint32_t low = (element & 4) != 0 ? bytes_.word[1] : bytes_.word[0];
    const std::uint32_t high = (element & 4) != 0 ? bytes_.word[3] : bytes_.word[2];
    const std::uint32_t word = ((element & 8) != 0 ? high : low) >> (8 * (element & 3));
    return (word & 255u) >= mask_.threshold ? mask_.scale : 0;
  }

 private:
  const DropoutMask& mask_;
  const DropoutKey& key_;
  std::int64_t element_ = 0;
  int block_ = -1;  // of sixteen, counted from element_'s: a register less than its own number would take
  Philox4 bytes_{};
};

inline constexpr float log2_of_e = 1.4426950408889634F;
inline constexpr float log_of_2 = 0.6931471805599453F;

// What is added to a head's scores, which are in powers of 2.
struct DistanceBias {
  float before = 0, behind = 0;

  template <class T>
  __device__ __forceinline__ DistanceBias(const Attention<T>& op, int head) {
    if (op.slopes == nullptr) return;
    before = op.slopes[2 * head] * log2_of_e;
    behind = -op.slopes[2 * head + 1] * log2_of_e;
  }
  // Of the key at place `key` of the sequence for the query at `query`: one of the products is negative, or
  // both are 0.
  __device__ __forceinline__ float operator()(int query, int key) const {
    const auto distance = static_cast<float>(key - query);
    return fminf(distance * before, distance * behind);
  }
};

}  // namespace comera::COMERA_CUDA
