#pragma once

// The warp-wide matrix instructions that kernels/cuda/products/tensor_cores.h wraps, from a lane's view: the
// distribution of elements over lanes is that of the PTX manual (sections "Matrix fragments for mma" and
// "ldmatrix").

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/emulation/block.h"
#include "kernels/emulation/tensor_core_sum.h"

namespace comera::emulation {

struct MatrixPayload {
  float* c;
  const unsigned *a, *b;
};

// C (16 x 8) += A (16 x depth) B (depth x 8); element(word) of the registers' words. Adds `at_a_time`
// products at a time.
template <int depth, int at_a_time, class A, class B>
void multiply_matrices(void* const* payloads, const A& a, const B& b) {
  const auto of = [&](int lane) { return static_cast<MatrixPayload*>(payloads[lane]); };
  double left[16][depth], right[8][depth];
  for (int k = 0; k < depth; ++k) {
    for (int column = 0; column < 8; ++column) right[column][k] = b(of, k, column);
    for (int row = 0; row < 16; ++row) left[row][k] = a(of, row, k);
  }
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float& c = of(row % 8 * 4 + column / 2)->c[row / 8 * 2 + column % 2];
      for (int k = 0; k < depth; k += at_a_time) {
        double addends[at_a_time + 1] = {c};
        for (int i = 0; i < at_a_time; ++i) addends[i + 1] = left[row][k + i] * right[column][k + i];
        c = tensor_core_sum(addends, at_a_time + 1, kept_bits);
      }
    }
}

inline void whole_warp(unsigned mask) {
  if (mask != full_warp) kernel_error("a matrix instruction needs all lanes of the warp");
}

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
inline void mma_bf16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                     const Where& where = Where::current()) {
  MatrixPayload payload{c, a, b};
  warp_meeting(
      full_warp,
      [](void* const* payloads, unsigned mask) {
        whole_warp(mask);
        const auto half = [](unsigned word, int k) {
          return std::bit_cast<float>(k % 2 == 0 ? word << 16 : word & 0xffff0000u);
        };
        multiply_matrices<16, 8>(
            payloads,
            [&](const auto& of, int row, int k) {
              return half(of(row % 8 * 4 + k % 8 / 2)->a[row / 8 + 2 * (k / 8)], k);
            },
            [&](const auto& of, int k, int column) { return half(of(column * 4 + k % 8 / 2)->b[k / 8], k); });
      },
      &payload, false, where);
}

// mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
inline void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                     const Where& where = Where::current()) {
  MatrixPayload payload{c, a, b};
  warp_meeting(
      full_warp,
      [](void* const* payloads, unsigned mask) {
        whole_warp(mask);
        const auto number = [](unsigned word) {
          if ((word & 0x1fffu) != 0) kernel_error("an operand of a TF32 product was not rounded to TF32");
          return std::bit_cast<float>(word);
        };
        multiply_matrices<8, 4>(
            payloads,
            [&](const auto& of, int row, int k) {
              return number(of(row % 8 * 4 + k % 4)->a[row / 8 + 2 * (k / 4)]);
            },
            [&](const auto& of, int k, int column) { return number(of(column * 4 + k % 4)->b[k / 4]); });
      },
      &payload, false, where);
}

// ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16: lanes 8 m .. 8 m + 7 give the row addresses of matrix m
// (8 x 8, of 16-bit numbers); lane 4 g + t gets elements (g, 2 t) and (g, 2 t + 1) of each matrix or of its
// transpose.
template <bool transposed>
void load_four_matrices(unsigned (&to)[4], const void* row, const Where& where) {
  struct Payload {
    unsigned* to;
    const void* row;
  } payload{to, row};
  warp_meeting(
      full_warp,
      [](void* const* payloads, unsigned mask) {
        whole_warp(mask);
        const auto of = [&](int lane) { return static_cast<Payload*>(payloads[lane]); };
        for (int matrix = 0; matrix < 4; ++matrix) {
          std::uint16_t numbers[8][8];
          for (int r = 0; r < 8; ++r) {
            const void* from = of(matrix * 8 + r)->row;
            if (reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
              kernel_error("a row of ldmatrix does not begin at a multiple of 16 bytes");
            std::memcpy(numbers[r], from, sizeof numbers[r]);
          }
          const auto number = [&](int r, int c) -> unsigned {
            return transposed ? numbers[c][r] : numbers[r][c];
          };
          for (int lane = 0; lane < warp_size; ++lane) {
            const int r = lane / 4, c = lane % 4 * 2;
            of(lane)->to[matrix] = number(r, c) | number(r, c + 1) << 16;
          }
        }
      },
      &payload, false, where);
}
inline void load_matrices(unsigned (&to)[4], const void* row, const Where& where = Where::current()) {
  load_four_matrices<false>(to, row, where);
}
inline void load_matrices_transposed(unsigned (&to)[4], const void* row,
                                     const Where& where = Where::current()) {
  load_four_matrices<true>(to, row, where);
}

}  // namespace comera::emulation
