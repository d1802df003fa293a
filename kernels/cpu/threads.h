#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>

namespace comera::cpu {

// Sets the number of OpenMP threads and makes each of them flush denormals to zero. Called once, before
// memory is planned: kernels ask for scratch by the number of threads. Their results do not depend on it.
// Error if the system does not give so many.
void prepare_threads(int threads);

// How many threads a kernel called here may use; 1 within another parallel region.
inline int thread_limit() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

// oneDNN would split large products among threads itself, in ways that depend on how many there are. A
// parallel region of one thread does not keep it from doing so; this does.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(threads_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int threads_ = omp_get_max_threads();
};

// piece(i, thread) for i in [0, count), in any order, on at most `threads` threads. What a piece computes
// must depend on i alone, and pieces write to separate places: then results do not depend on threads. One
// thread takes the same path as several: if the body of a piece were compiled twice, the compiler could
// round a * b + c * d in two ways.
//
// A thread takes its own share of the pieces first, one after the other, and then what others have left: the
// operations of a step thus find the rows of the operation before in the caches of the same core.
template <class Piece>
void parallel_pieces(std::int64_t count, int threads, const Piece& piece) {
  if (count <= 0) return;
  threads = static_cast<int>(std::clamp<std::int64_t>(threads, 1, count));
  struct alignas(64) Share {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };
  std::array<Share, 64> shares;  // of more threads, some begin with the same share
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

// Rows fall into pieces of so many each: as many pieces for every thread, of at most `most` rows, and of no
// fewer than `least` but for the last. For rows whose results do not depend on the piece that they are in.
inline std::int64_t rows_of_piece(std::int64_t rows, std::int64_t least, std::int64_t most, int threads) {
  const std::int64_t rounds = (rows + most * threads - 1) / (most * threads);
  const std::int64_t pieces = std::max<std::int64_t>(rounds * threads, 1);
  return std::clamp((rows + pieces - 1) / pieces, least, most);
}

}  // namespace comera::cpu
