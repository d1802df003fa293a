#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>

namespace comera::cpu {

// Sets the number of OpenMP threads and makes each of them flush denormals to zero. Called once, before
// memory is planned: the scratch of kernels depends on the number of threads, their results do not. Error if
// the system does not provide that many.
void prepare_threads(int threads);

// How many threads a kernel called here may use; 1 within another parallel region.
inline int thread_limit() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

// Prevents oneDNN from splitting large products among threads, which would depend on their number. A parallel
// region of one thread does not prevent that.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(threads_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int threads_ = omp_get_max_threads();
};

// piece(i, thread) for i in [0, count), in any order, on at most `threads` threads. A piece's results must
// depend on i alone, and pieces must write to separate memory: then results do not depend on threads. One
// thread takes the same code path as several: if the body of a piece were compiled twice, the compiler could
// round a * b + c * d in two ways.
//
// A thread first takes its own share of the pieces in order, and then the remaining pieces of others: thus
// the operations of a step find the rows of the previous operation in the caches of the same core.
template <class Piece>
void parallel_pieces(std::int64_t count, int threads, const Piece& piece) {
  if (count <= 0) return;
  threads = static_cast<int>(std::clamp<std::int64_t>(threads, 1, count));
  struct alignas(64) Share {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };
  std::array<Share, 64> shares;  // with more threads, some start with the same share
  const int used = std::min(threads, static_cast<int>(shares.size()));
  for (int s = 0; s < used; ++s) {
    shares[s].next = count * s / used;
    shares[s].end = count * (s + 1) / used;
  }
  std::exception_ptr failure;  // an exception must not leave a parallel region
#pragma omp parallel num_threads(threads)
  for (int turn = 0; turn < used; ++turn) {
    Share& share = shares[(omp_get_thread_num() + turn) % used];
    for (std::int64_t i = share.next++; i < share.end; i = share.next++) {
      try {
        piece(i, omp_get_thread_num());
      } catch (...) {
#pragma omp critical(comera_piece_failure)
        if (!failure) failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

// The rows of a piece if each row's result is independent: whole tiles, so that a row has the same position
// in a tile for any number of threads, and at most `most`, which is a multiple of the tile. Fewer if that
// noticeably reduces the rows of the busiest thread.
inline std::int64_t rows_of_piece(std::int64_t rows, std::int64_t tile, std::int64_t most, int threads) {
  const auto largest_share = [&](std::int64_t each) {
    const std::int64_t pieces = (rows + each - 1) / each;
    std::int64_t largest = 0;
    for (std::int64_t t = 0; t < threads; ++t) {
      const std::int64_t begin = pieces * t / threads * each, end = pieces * (t + 1) / threads * each;
      largest = std::max(largest, std::min(end, rows) - begin);
    }
    return largest;
  };
  std::int64_t best = most, share = largest_share(most);
  for (std::int64_t each = most - tile; each >= tile; each -= tile) {
    const std::int64_t of_each = largest_share(each);
    if (of_each < share - share / 64) best = each, share = of_each;
  }
  return best;
}

}  // namespace comera::cpu
