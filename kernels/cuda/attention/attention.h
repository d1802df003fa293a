#pragma once

// Shared by the attention kernels. A block owns rows of one sequence and one head (or of all heads that share
// keys): 16 rows per warp, as fragments. It iterates over the other side of the scores in tiles of rows in
// shared memory. Scores exist only in registers and are recomputed where needed; every sum has one owner and
// a fixed order.

#include <algorithm>

#include "kernels/cuda/elementwise/activations.h"
#include "kernels/cuda/products/tensor_cores.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/attention/attention.h"

namespace comera::COMERA_CUDA {

inline constexpr int most_head_size = 128;

// Heads are padded with zeros to D = 32, 64 or 128 in shared memory.
template <class Math, int D>
struct AttentionTiles {
  using T = typename Math::Element;
  static constexpr bool narrow = sizeof(T) == 2 && D <= 64;  // eight warps have registers for their tiles
  static constexpr int warps = narrow ? 8 : 4;
  static constexpr int threads = warps * warp;
  static constexpr int own_rows = 16 * warps;
  static constexpr int other_rows = std::min(128, (sizeof(T) == 2 ? 8192 : 2048) / D);  // per tile
  static constexpr int stride = D + 8;
  static constexpr int other_elements = other_rows * stride;
  static constexpr int group = std::min(64, other_rows);  // see DealtKeys
};

// Rows of heads in memory.
template <class T>
struct HeadRows {
  T* at = nullptr;
  std::int64_t ld = 0;  // elements from row to row
  int size = 0;         // of a head: its columns that take part
  int stored = 0;       // and all of them
  int unit = 1;         // every head's rows begin at, and consist of, multiples of this many elements

  __device__ __forceinline__ T* row(std::int64_t row, int head) const {
    return at + row * ld + std::int64_t{head} * stored;
  }
};

// move(unit): rows are moved in units of 16 bytes, 4 bytes or an element.
template <class T, class Move>
__device__ __forceinline__ void in_units(const HeadRows<T>& rows, const Move& move) {
  constexpr int sixteen = 16 / sizeof(T), four = 4 / sizeof(T);
  if (rows.unit == sixteen)
    move(std::integral_constant<int, sixteen>{});
  else if (four > 1 && rows.unit == four)
    move(std::integral_constant<int, four>{});
  else
    move(std::integral_constant<int, 1>{});
}

// Where the column of ones after the values is stored: after their rows, or in their last column, where
// memory holds something else.
enum class One : std::uint8_t { none, behind, last };

// Tensors of an operation, of either direction.
template <class T>
struct Attention {
  HeadRows<T> q, k, v, out;
  HeadRows<T> dout, dq, dk, dv;  // backward only
  float* log_sum_exp = nullptr;
  // (heads, T): kept Σ_c out dout, passed from the first backward kernel to the second.
  float* delta = nullptr;
  const float* slopes = nullptr;  // (heads, 2), or null
  const float* biases = nullptr;  // (heads, 2 reach + 1), or null
  int reach = 0;
  const std::int32_t* offsets = nullptr;
  std::int64_t rows = 0;  // T
  std::int64_t longest = 0;
  int sequences = 0, heads = 0, kv_heads = 0;
  int most_queries = 0;  // of a sequence, at its beginning
  One one = One::none;
  bool appends_one = false;  // with or without a column of ones
  float scale = 1;
  // mask.scale is applied only at the end; it is 1 / keep probability, or 0 if nothing is kept.
  DropoutMask mask;
  float kept = 1;

  __device__ __forceinline__ int kv_head(int head) const { return kv_heads == 1 ? 0 : head; }
  __device__ __forceinline__ int queries(int length) const { return min(length, most_queries); }
};

template <class T>
HeadRows<T> head_rows(const Tensor& tensor, std::int64_t ld, std::int64_t size, std::int64_t stored) {
  HeadRows<T> rows{tensor.data<T>(), ld, static_cast<int>(size), static_cast<int>(stored), 1};
  for (const int bytes : {4, 16}) {
    const int unit = bytes / static_cast<int>(sizeof(T));
    if (ld % unit == 0 && size % unit == 0 && stored % unit == 0 &&
        reinterpret_cast<std::uintptr_t>(tensor.raw()) % bytes == 0)
      rows.unit = unit;
  }
  return rows;
}

// With used_values there is no dropout, so that the row sums are 1: nothing computes them.
template <class T, class Operation>
HeadRows<T> value_rows(const Operation& op, const Tensor& values) {
  const std::int64_t stored = op.stored_values();
  return head_rows<T>(values, value_stride(op), op.used_values > 0 ? op.used_values : stored, stored);
}
template <class T, class Operation>
HeadRows<T> out_rows(const Operation& op, const Tensor& out) {
  const std::int64_t stored = op.out.dim(1) / op.heads;
  return head_rows<T>(out, op.out.dim(1), op.used_values > 0 ? op.used_values : stored, stored);
}

template <class T, class Operation>
Attention<T> attention_of(const Operation& op) {
  Attention<T> made;
  made.q = head_rows<T>(op.q, op.q.dim(1), op.key_size(), op.key_size());
  made.k = head_rows<T>(op.k, key_stride(op), op.key_size(), op.key_size());
  made.v = value_rows<T>(op, op.v);
  made.out = out_rows<T>(op, op.out);
  made.log_sum_exp = op.log_sum_exp.template data<float>();
  if (op.slopes) made.slopes = op.slopes.template data<float>();
  if (op.biases) {
    made.biases = op.biases.template data<float>();
    made.reach = static_cast<int>(op.biases.dim(1) / 2);
  }
  made.offsets = op.sequence_offsets.template data<std::int32_t>();
  made.rows = op.q.dim(0);
  made.longest = op.longest;
  made.most_queries = static_cast<int>(op.most_queries());
  made.sequences = static_cast<int>(op.sequence_offsets.elements() - 1);
  made.heads = static_cast<int>(op.heads);
  made.kv_heads = static_cast<int>(op.kv_heads());
  made.appends_one = op.append_one;
  if (op.append_one && op.used_values == 0) made.one = op.room_for_one ? One::last : One::behind;
  made.scale = static_cast<float>(op.scale);
  made.mask = mask_of(op.dropout, op.step_inputs);
  made.kept = static_cast<float>(256 - made.mask.threshold) / 256;
  if (made.kept == 0) made.mask.scale = 0;
  return made;
}

// Grid: sequences and one more block for the padding; heads; parts of the longest sequence.
template <class Operation>
Shape3 attention_grid(const Operation& op, std::int64_t heads, int own_rows) {
  return {op.sequence_offsets.elements(), heads, blocks_for(op.longest, own_rows)};
}

// kernel(D) for the smallest D that holds a head.
template <class Operation, class Kernel>
void with_head_size(const Operation& op, const Kernel& kernel) {
  const std::int64_t size =
      std::max(op.key_size(), op.used_values > 0 ? op.used_values : op.out.dim(1) / op.heads);
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

// The position of a tile's rows in shared memory. An order permutes the bits of a row's number, so that the
// position of a sum of numbers with disjoint bits is the sum of their positions.
struct InOrder {
  static __device__ __forceinline__ int place(int row) { return row; }
};

// Keys of a group are permuted so that each of the four lanes of a score row holds neighbouring keys, whose
// dropout one generator call decides: column 2 t + i of tile n of eight is the group's key (group / 4) t + 2
// n + i. Products are unaffected, since keys and values have the same order.
template <int group>
struct PermutedKeyOrder {
  static constexpr int each = group / 4;
  static __device__ __forceinline__ int place(int row) {
    const int key = row % each;
    return row / group * group + key / 2 * 8 + row % group / each * 2 + key % 2;
  }
  // The group's key in column fragment_column() of tile 0; those of tile n follow at 2 n.
  static __device__ __forceinline__ int first() { return fragment_column() / 2 * each; }
};

// Prefetches the memory line of this address into the L2 cache, without waiting.
__device__ __forceinline__ void prefetch_l2([[maybe_unused]] const void* address) {
#if !defined(COMERA_EMULATED)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

// A type of this many bytes, moved in one instruction.
template <int bytes>
struct alignas(bytes) Bytes {
  std::conditional_t<bytes == 2, std::uint16_t, std::uint32_t> at[bytes < 4 ? 1 : bytes / 4];
};

// Sets a unit's first element to 1, or its last one, if it follows others.
template <class T, int U>
__device__ __forceinline__ void put_one(Bytes<U * sizeof(T)>& unit, bool last) {
  constexpr int words = U * sizeof(T) / 4;
  if constexpr (sizeof(T) == 4)
    unit.at[last ? words - 1 : 0] = 0x3f800000u;
  else if constexpr (U == 1)
    unit.at[0] = 0x3f80u;
  else if (last)
    unit.at[words - 1] = (unit.at[words - 1] & 0xffffu) | 0x3f800000u;
  else
    unit.at[0] = (unit.at[0] & 0xffff0000u) | 0x3f80u;
}

// Loads rows [first, first + rows) of a head into shared memory with the given number of threads: zeros
// beyond the sequence's end and the head's width, but ones in the column of ones, even beyond the end.
// Readers must pass the block's barrier first. Several loads are in flight at once.
template <int D, int rows, int threads, class Order, class T>
__device__ __forceinline__ void load_rows(T* to, const HeadRows<T>& from, int head, One one,
                                          std::int64_t begin, int length, int first) {
  in_units(from, [&](auto unit) {
    constexpr int U = decltype(unit)::value, units = D / U, step = threads / units, stride = D + 8;
    static_assert(rows >= step, "every thread has rows");
    constexpr int most = rows / step, enough = U * sizeof(T) == 16 ? 4 : D == 32 ? 16 : 8;
    constexpr int batch = most < enough ? most : enough;
    using Unit = Bytes<U * sizeof(T)>;
    const int thread = static_cast<int>(opaque_thread_index() % threads), column = thread % units * U,
              own_row = thread / units;
    Unit absent{};
    const bool behind = one == One::behind && column == from.size;
    const bool last = one == One::last && column + U == from.size;
    if (behind || last) put_one<T, U>(absent, last);
    const int real = (column < from.size ? length - first : 0) - own_row;
    const T* source = from.row(begin + first + own_row, head) + column;
    const std::int64_t source_step = step * from.ld;
    // own_row < step, and row is a multiple of step * batch, so that their positions can be added. nvcc 13.0
    // computes the position of their sum wrongly where own_row is always 0 (step = 1).
    static_assert((step & (step - 1)) == 0 && (batch & (batch - 1)) == 0);
    T* const own_to = to + Order::place(own_row) * stride + column;
#pragma unroll 2
    for (int row = 0; row < rows; row += step * batch) {
      Unit loaded[batch];
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        loaded[b] = absent;
        if (row + b * step < real) {
          loaded[b] = *reinterpret_cast<const Unit*>(source);
          if (last) put_one<T, U>(loaded[b], true);
        }
        source += source_step;
      }
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        const int place = Order::place(row) + Order::place(b * step);
        *reinterpret_cast<Unit*>(own_to + place * stride) = loaded[b];
      }
    }
  });
}

// Prefetches rows [first, first + rows) of a head for an upcoming load, one row per thread.
template <int rows, int threads, class T>
__device__ __forceinline__ void prefetch_rows(const HeadRows<T>& from, int head, std::int64_t begin,
                                              int length, int first) {
  static_assert(rows <= threads);
  const int row = static_cast<int>(opaque_thread_index() % threads);
  if (row >= rows || first + row >= length) return;
  const T* at = from.row(begin + first + row, head);
  prefetch_l2(at);
  prefetch_l2(at + from.size - 1);
}

// Stores a warp's 16 rows of fragments, each times the `factor` of its half, into those rows of a head that
// the sequence has; through shared memory owned by the warp, so that neighbours in memory are written
// together.
template <int D, class T>
__device__ __forceinline__ void store_rows(const HeadRows<T>& to, int head, std::int64_t begin, int length,
                                           int first, T* shared, const TileC (&tiles)[D / 8],
                                           const float (&factor)[2]) {
  constexpr int stride = D + 8;
  __syncwarp();  // all lanes are done with the previous content
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
      store(shared + (fragment_row() + 8 * half) * stride + 8 * n + fragment_column(),
            Values<2>{{tiles[n].at[2 * half] * factor[half], tiles[n].at[2 * half + 1] * factor[half]}});
  __syncwarp();
  in_units(to, [&](auto unit) {
    constexpr int U = decltype(unit)::value, across = D / U < warp ? D / U : warp, step = warp / across;
    using Unit = Bytes<U * sizeof(T)>;
    const int own_row = lane_of_thread() / across, own_column = lane_of_thread() % across * U;
    const int real = length - first - own_row;
    T* at = to.row(begin + first + own_row, head);
    const T* from = shared + own_row * stride;
#pragma unroll
    for (int c = 0; c < D; c += across * U) {
      const int column = own_column + c;
#pragma unroll 4
      for (int row = 0; row < 16; row += step)
        if (row < real && column < to.size)
          *reinterpret_cast<Unit*>(at + row * to.ld + column) =
              *reinterpret_cast<const Unit*>(from + row * stride + column);
    }
  });
}

// Stores what follows the columns that take part in a warp's 16 rows of a head: zeros, and in the last column
// of the first `ones` rows of the sequence a one.
template <class T>
__device__ __forceinline__ void store_rest(const HeadRows<T>& to, int head, std::int64_t begin, int length,
                                           int first, int ones) {
  const int rest = to.stored - to.size;
  for (int i = lane_of_thread(); i < 16 * rest; i += warp) {
    const int row = first + i / rest, column = to.size + i % rest;
    if (row < length)
      to.row(begin + row, head)[column] = T(column == to.stored - 1 && row < ones ? 1.F : 0.F);
  }
}

// A warp's own 16 rows as fragments: in registers if there is room, which saves shared memory traffic, or
// loaded when needed.
template <class Math, int D, bool held>
class OwnRows {
 public:
  using T = typename Math::Element;
  __device__ __forceinline__ explicit OwnRows(const T* tile) : tile_(tile) {}
  // Called when the tile is complete.
  __device__ __forceinline__ void hold() {
    if constexpr (held)
#pragma unroll
      for (int i = 0; i < D / Math::depth; ++i) rows_[i] = load_a<Math>(tile_ + i * Math::depth, D + 8);
  }
  __device__ __forceinline__ typename Math::A at(int column) const {
    if constexpr (held)
      return rows_[column / Math::depth];
    else
      return load_a<Math>(tile_ + column, D + 8);
  }

 private:
  const T* tile_;
  typename Math::A rows_[held ? D / Math::depth : 1];
};

// Zeros the rows outside all sequences: the work of blocks (sequences, …, …).
template <class T>
__device__ __forceinline__ void clear_padding(const HeadRows<T>& to, int heads, std::int64_t used,
                                              std::int64_t rows) {
  const std::int64_t width = std::int64_t{heads} * to.stored;
  const std::int64_t blocks = std::int64_t{gridDim.y} * gridDim.z;
  for (std::int64_t row = used + blockIdx.y + gridDim.y * blockIdx.z; row < rows; row += blocks)
    for (std::int64_t column = threadIdx.x; column < width; column += blockDim.x)
      to.at[row * to.ld + column] = T(0.F);
}

// Dropout decisions for N neighbouring elements: the highest bit of byte i % 4 of word i / 4 is set if
// element i is kept.
template <int N>
struct DropoutMaskBits {
  unsigned word[N / 4];

  // Afterwards element i is the previous element count + i.
  template <int count>
  __device__ __forceinline__ void skip() {
#pragma unroll
    for (int i = 0; i + count / 4 < N / 4; ++i) word[i] = word[i + count / 4];
  }
  __device__ __forceinline__ bool stays(int i) const { return (word[i / 4] & (0x80u << (8 * (i % 4)))) != 0; }
};

class Dropout {
 public:
  __device__ __forceinline__ explicit Dropout(const DropoutMask& mask) : active(mask.key != nullptr) {
    if (!active) return;
    key_ = *mask.key;
    site_ = mask.site;
    // A byte is at least the threshold depending on its highest bit and on the sum of its other bits and this
    // constant: either of them for a threshold up to 128, both beyond it.
    const bool low = mask.threshold <= 128;
    added_ = ((low ? 128 : 256) - mask.threshold) * 0x01010101u;
    either_ = low ? ~0u : 0u;
  }

  // For elements [element, element + N): one generator call for sixteen, or two if they straddle a boundary.
  // Without dropout all are kept.
  template <int N>
  __device__ __forceinline__ DropoutMaskBits<N> decide(std::uint64_t element) const {
    DropoutMaskBits<N> decisions;
    if (!active) {
#pragma unroll
      for (int i = 0; i < N / 4; ++i) decisions.word[i] = ~0u;
      return decisions;
    }
    const auto block = static_cast<std::uint32_t>(element / 16);
    const auto from = static_cast<int>(element % 16);
    const Philox4 bytes = dropout_bytes(key_, site_, block);
    unsigned word[8] = {bytes.word[0], bytes.word[1], bytes.word[2], bytes.word[3]};
    if (from != 0) {
      if (from + N > 16) {
        const Philox4 next = dropout_bytes(key_, site_, block + 1);
#pragma unroll
        for (int i = 0; i < 4; ++i) word[4 + i] = next.word[i];
      }
#pragma unroll
      for (int i = 0; i < 6; ++i) word[i] = (from & 8) != 0 ? word[i + 2] : word[i];
#pragma unroll
      for (int i = 0; i < 5; ++i) word[i] = (from & 4) != 0 ? word[i + 1] : word[i];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        word[i] = static_cast<unsigned>((std::uint64_t{word[i + 1]} << 32 | word[i]) >> (8 * (from & 3)));
    }
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
      const unsigned sum = (word[i] & 0x7f7f7f7fu) + added_;
      decisions.word[i] = (sum & word[i]) | ((sum | word[i]) & either_);
    }
    return decisions;
  }

  const bool active;

 private:
  DropoutKey key_{};
  std::uint32_t site_ = 0, added_ = 0, either_ = 0;
};

inline constexpr float log2_of_e = 1.4426950408889634F;
inline constexpr float log_of_2 = 0.6931471805599453F;

// Converts a head's products of queries and keys to scores. Gradients are small differences of large sums,
// which cancel only if all kernels round a score alike: scores are powers of 2 times `unit`, applied in the
// fmaf that subtracts from them. A bias is added first, in a separate fmaf. Products with a non-positive
// scale take this path too, because -infinity times the scale would no longer mark hidden keys.
template <class T>
struct Scores {
  const Attention<T>& op;
  const int head;
  const bool biased;
  const float scale, unit;
  float before = 0, behind = 0;  // slopes, in powers of 2

  __device__ __forceinline__ Scores(const Attention<T>& attention, int of_head)
      : op(attention),
        head(of_head),
        biased(op.slopes != nullptr || op.biases != nullptr || !(op.scale > 0)),
        scale(op.scale * log2_of_e),
        unit(biased ? 1 : scale) {
    if (op.slopes == nullptr) return;
    before = op.slopes[2 * head] * log2_of_e;
    behind = -op.slopes[2 * head + 1] * log2_of_e;
  }
  // If biased: body(with_bias) with with_bias(product, distance) for the key at this distance after the
  // query, compiled for a table and for slopes. Keys and queries that are not there may be farther away than
  // the table reaches. Of the two terms of slopes, one is negative, or both are 0.
  template <class Body>
  __device__ __forceinline__ void biases(const Body& body) const {
    if (op.biases != nullptr) {
      const int reach = op.reach;
      const float* at_query = op.biases + head * (2 * reach + 1) + reach;
      body([&](float product, float distance) {
        const int place = max(-reach, min(reach, static_cast<int>(distance)));
        return fmaf(product, scale, at_query[place] * log2_of_e);
      });
    } else if (biased) {
      body([&](float product, float distance) {
        return fmaf(product, scale, fminf(distance * before, distance * behind));
      });
    }
  }
  // The scores of a tile of queries and keys in the order of KeyOrder: with biases, and -infinity from the
  // key `length` on. query, key: of this lane's first score.
  template <int N>
  __device__ __forceinline__ void bias_and_hide(TileC (&scores)[N], int query, int key, int length) const {
    biases([&](const auto& with_bias) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto distance = static_cast<float>(key - (query + 8 * half));
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& score = scores[n].at[2 * half + i];
            score = with_bias(score, distance + static_cast<float>(2 * n + i));
          }
      }
    });
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (key + 2 * n + i % 2 >= length) scores[n].at[i] = -INFINITY;
  }
  // 2^(score - subtracted).
  __device__ __forceinline__ float power(float score, float subtracted) const {
    return fast_exp2(fmaf(score, unit, -subtracted));
  }
};

}  // namespace comera::COMERA_CUDA
