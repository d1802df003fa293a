#include "kernels/cpu/threads.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace comera::cpu {
namespace {

TEST(ParallelPieces, AreEachTakenOnce) {
  for (const int threads : {1, 2, 3, 70})
    for (const std::int64_t count : {1, 2, 63, 200}) {
      std::vector<std::atomic<int>> taken(count);
      std::atomic<int> strangers = 0;
      parallel_pieces(count, threads, [&](std::int64_t i, int thread) {
        ++taken[i];
        if (thread < 0 || thread >= threads) ++strangers;
      });
      for (const auto& times : taken) EXPECT_EQ(times, 1) << count << " pieces, " << threads << " threads";
      EXPECT_EQ(strangers, 0);
    }
}

TEST(ParallelPieces, ThrowWhatOneOfThemThrew) {
  std::atomic<int> others = 0;
  EXPECT_THROW(parallel_pieces(20, 3,
                               [&](std::int64_t i, int) {
                                 if (i == 7) throw std::runtime_error("the seventh");
                                 ++others;
                               }),
               std::runtime_error);
  EXPECT_EQ(others, 19);
}

// A row's position in its tile is the same as with one thread.
TEST(RowsOfPiece, AreWholeTilesForAnyNumberOfThreads) {
  for (const std::int64_t rows : {0, 1, 5, 12, 131, 257, 4096, 100'000})
    for (const int threads : {1, 2, 3, 8, 64})
      for (const std::int64_t tile : {6, 12}) {
        const std::int64_t each = rows_of_piece(rows, tile, 132, threads);
        EXPECT_EQ(each % tile, 0);
        EXPECT_GE(each, tile);
        EXPECT_LE(each, 132);
      }
}

TEST(RowsOfPiece, ShareRowsOut) {
  EXPECT_EQ(rows_of_piece(4096, 12, 132, 1), 132);
  EXPECT_EQ(rows_of_piece(4096, 12, 132, 2), 120) << "of 132, one thread has 2,112, the other 1,984";
  EXPECT_EQ(rows_of_piece(132, 12, 132, 2), 72) << "both threads have some";
  EXPECT_EQ(rows_of_piece(24, 12, 132, 8), 12);
}

}  // namespace
}  // namespace comera::cpu
