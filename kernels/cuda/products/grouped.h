#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cuda/launch.h"

namespace comera::COMERA_CUDA {

// Several pieces of work in one launch, each with its own blocks. Their descriptions are the launch's
// parameters, limited to 32,764 bytes on Volta and later. All of a parameter struct is sent to the GPU, so
// few pieces use a smaller type.
template <class Piece>
constexpr int most_pieces = (32764 - 64) / (sizeof(Piece) + sizeof(int));  // 64: the count, and gaps
constexpr int few_pieces = 16;

template <class Piece, int most>
struct Grouped {
  int count = 0;
  int first_block[most] = {};  // ascending from 0; contiguous, because every block searches for its piece
  Piece at[most];
};

// The piece that a block works for, and the block's index within it.
template <class Piece>
struct PieceOfBlock {
  const Piece& piece;
  int block;
};
template <class Piece, int most>
__device__ __forceinline__ PieceOfBlock<Piece> piece_of_block(const Grouped<Piece, most>& all) {
  int piece = 0;  // the last piece that starts at or before this block
  for (int behind = all.count; piece + 1 < behind;) {
    const int middle = (piece + behind) / 2;
    if (static_cast<int>(blockIdx.x) >= all.first_block[middle])
      piece = middle;
    else
      behind = middle;
  }
  return {all.at[piece], static_cast<int>(blockIdx.x) - all.first_block[piece]};
}

template <int most, class Piece, class BlocksOf, class Launch>
void launch_grouped_of(const std::vector<Piece>& pieces, const BlocksOf& blocks_of, const Launch& launch) {
  for (std::size_t begin = 0; begin < pieces.size(); begin += most) {
    Grouped<Piece, most> some;
    std::int64_t blocks = 0;
    for (std::size_t i = begin; i < std::min(begin + most, pieces.size()); ++i) {
      some.first_block[some.count] = static_cast<int>(blocks);  // an oversized grid is rejected
      some.at[some.count++] = pieces[i];
      blocks += blocks_of(pieces[i]);
    }
    launch(some, blocks);
  }
}

// Calls launch(some, blocks), where `some` is a Grouped<Piece, most> of one of two sizes, with as many pieces
// at a time as a launch takes; blocks_of(piece) counts a piece's blocks.
template <class Piece, class BlocksOf, class Launch>
void launch_grouped(const std::vector<Piece>& pieces, const BlocksOf& blocks_of, const Launch& launch) {
  if (pieces.size() <= few_pieces)
    launch_grouped_of<few_pieces>(pieces, blocks_of, launch);
  else
    launch_grouped_of<most_pieces<Piece>>(pieces, blocks_of, launch);
}

}  // namespace comera::COMERA_CUDA
