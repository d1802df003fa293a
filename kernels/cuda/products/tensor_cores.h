#pragma once

// Products of small matrices by a warp: tensor core instructions, and the matrix fragments that its lanes
// hold.

#include "kernels/cuda/reduce.h"
#include "kernels/shared/bfloat16.h"
#if defined(COMERA_EMULATED)
#include "kernels/emulation/tensor_cores.h"
#endif

namespace comera::COMERA_CUDA {

// ---- Instructions (PTX ISA, "Warp level matrix multiply-accumulate instructions"). All lanes must take
// part.

#if !defined(COMERA_EMULATED)
__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ __forceinline__ unsigned round_to_tf32(float x) {
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
  return rounded;
}
#endif

// ---- Fragments. Of C (16 x 8), lane 4 g + t holds:
//   at[0], at[1] = C[g][2t], C[g][2t + 1];   at[2], at[3] = C[g + 8][2t], C[g + 8][2t + 1]
struct TileC {
  float at[4];
};
__device__ __forceinline__ int fragment_row() { return lane_of_thread() / 4; }         // g
__device__ __forceinline__ int fragment_column() { return lane_of_thread() % 4 * 2; }  // 2 t

// How C (16 x 8) += A (16 x depth) B (depth x 8) is computed. An instruction's indices along the depth may be
// permuted, as long as A and B agree: lane 4 g + t holds indices 2 t and 2 t + 1 of every eight, which are
// neighbours in memory and match those of a C that becomes an A.

// float32 with operands rounded to TF32 (10 bits of mantissa).
struct TF32 {
  using Element = float;
  static constexpr int depth = 8;
  struct A {
    unsigned at[4];
  };
  struct B {
    unsigned at[2];
  };
  static __device__ __forceinline__ A make_a(const TileC* c) {
    return {
        {round_to_tf32(c->at[0]), round_to_tf32(c->at[2]), round_to_tf32(c->at[1]), round_to_tf32(c->at[3])}};
  }
  static __device__ __forceinline__ B make_b(float first, float second) {
    return {{round_to_tf32(first), round_to_tf32(second)}};
  }
  static __device__ __forceinline__ void multiply(TileC& c, const A& a, const B& b) {
    mma_tf32(c.at, a.at, b.at);
  }
  static __device__ __forceinline__ void add_product(TileC& c, const A& a, const B& b) { multiply(c, a, b); }
};

// float32 as sums of two TF32 numbers; the product of the two small parts is omitted: 2^-21 of |A| |B|.
// Tensor cores truncate their sums instead of rounding, so that long sums would drift: `add_product`, used
// for sums over keys or queries, computes each product separately and adds it in ordinary float32.
struct SplitTF32 {
  using Element = float;
  static constexpr int depth = 8;
  struct A {
    TF32::A high, low;
  };
  struct B {
    TF32::B high, low;
  };
  static __device__ __forceinline__ A make_a(const TileC* c) {
    A a{TF32::make_a(c), {}};
    TileC rest;
    rest.at[0] = c->at[0] - __uint_as_float(a.high.at[0]);
    rest.at[2] = c->at[2] - __uint_as_float(a.high.at[1]);
    rest.at[1] = c->at[1] - __uint_as_float(a.high.at[2]);
    rest.at[3] = c->at[3] - __uint_as_float(a.high.at[3]);
    a.low = TF32::make_a(&rest);
    return a;
  }
  static __device__ __forceinline__ B make_b(float first, float second) {
    B b{TF32::make_b(first, second), {}};
    b.low = TF32::make_b(first - __uint_as_float(b.high.at[0]), second - __uint_as_float(b.high.at[1]));
    return b;
  }
  static __device__ __forceinline__ void multiply(TileC& c, const A& a, const B& b) {
    TF32::multiply(c, a.low, b.high);
    TF32::multiply(c, a.high, b.low);
    TF32::multiply(c, a.high, b.high);
  }
  static __device__ __forceinline__ void add_product(TileC& c, const A& a, const B& b) {
    TileC part{};
    multiply(part, a, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) c.at[i] += part.at[i];
  }
};

// bfloat16 operands, float32 sums.
struct BF16 {
  using Element = bfloat16;
  static constexpr int depth = 16;
  struct A {
    unsigned at[4];
  };
  struct B {
    unsigned at[2];
  };
  static __device__ __forceinline__ unsigned pair(float first, float second) {
#if defined(COMERA_EMULATED)
    return bfloat16(first).bits | static_cast<unsigned>(bfloat16(second).bits) << 16;
#else
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
#endif
  }
  // From two neighbouring tiles.
  static __device__ __forceinline__ A make_a(const TileC* c) {
    return {{pair(c[0].at[0], c[0].at[1]), pair(c[0].at[2], c[0].at[3]), pair(c[1].at[0], c[1].at[1]),
             pair(c[1].at[2], c[1].at[3])}};
  }
  static __device__ __forceinline__ void multiply(TileC& c, const A& a, const B& b) {
    mma_bf16(c.at, a.at, b.at);
  }
  static __device__ __forceinline__ void add_product(TileC& c, const A& a, const B& b) { multiply(c, a, b); }
};

// A from a row-major matrix in shared memory with row stride `stride`. With stride = 8 modulo 32 there are no
// bank conflicts.
template <class Math>
__device__ __forceinline__ typename Math::A load_a(const typename Math::Element* from, int stride) {
  if constexpr (Math::depth == 16) {
    typename Math::A a;
    load_matrices(a.at, from + lane_of_thread() % 16 * stride + lane_of_thread() / 16 * 8);
    return a;
  } else {
    from += fragment_row() * stride + fragment_column();
    const TileC c{{from[0], from[1], from[8 * stride], from[8 * stride + 1]}};
    return Math::make_a(&c);
  }
}

// A from its transpose: rows of shared memory along the depth.
__device__ __forceinline__ BF16::A load_a_of_columns(const bfloat16* from, int stride) {
  const int lane = lane_of_thread();
  BF16::A a;
  load_matrices_transposed(a.at, from + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
  return a;
}

// use(n, B) for each of `tiles` neighbours along n. B comes from its transpose: n rows of shared memory along
// the depth.
template <class Math, int tiles, class Use>
__device__ __forceinline__ void each_b_of_rows(const typename Math::Element* from, int stride,
                                               const Use& use) {
  if constexpr (Math::depth == 16) {
    const int lane = lane_of_thread();
    from += (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      unsigned words[4];
      load_matrices(words, from + 8 * n * stride);
      use(n, typename Math::B{{words[0], words[1]}});
      use(n + 1, typename Math::B{{words[2], words[3]}});
    }
  } else {
    from += fragment_row() * stride + fragment_column();
#pragma unroll
    for (int n = 0; n < tiles; ++n) use(n, Math::make_b(from[8 * n * stride], from[8 * n * stride + 1]));
  }
}

// The same for B itself: rows of shared memory along n.
template <class Math, int tiles, class Use>
__device__ __forceinline__ void each_b_of_columns(const typename Math::Element* from, int stride,
                                                  const Use& use) {
  if constexpr (Math::depth == 16) {
    from += lane_of_thread() % 16 * stride + lane_of_thread() / 16 * 8;
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      unsigned words[4];
      load_matrices_transposed(words, from + 8 * n);
      use(n, typename Math::B{{words[0], words[1]}});
      use(n + 1, typename Math::B{{words[2], words[3]}});
    }
  } else {
    from += fragment_column() * stride + fragment_row();
#pragma unroll
    for (int n = 0; n < tiles; ++n) use(n, Math::make_b(from[8 * n], from[8 * n + stride]));
  }
}

// Over the four lanes that hold a row of C.
__device__ __forceinline__ float row_sum(float value) {
  value += __shfl_xor_sync(all_lanes, value, 1);
  return value + __shfl_xor_sync(all_lanes, value, 2);
}
__device__ __forceinline__ float row_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(all_lanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(all_lanes, value, 2));
}

}  // namespace comera::COMERA_CUDA
