#pragma once

#include "kernels/cuda/cuda.h"

namespace comera::COMERA_CUDA {

// Pieces of work of one launch, each with blocks of its own.

// A launch's descriptions of them are its parameters, of which Volta and later take so many bytes.
inline constexpr std::size_t most_parameters = 32764;

// Which one a block works for: the last whose blocks have begun. first_block rises from 0.
__device__ __forceinline__ int piece_of_block(const int* first_block, int count) {
  int piece = 0;
  for (int behind = count; piece + 1 < behind;) {
    const int middle = (piece + behind) / 2;
    if (static_cast<int>(blockIdx.x) >= first_block[middle])
      piece = middle;
    else
      behind = middle;
  }
  return piece;
}

}  // namespace comera::COMERA_CUDA
