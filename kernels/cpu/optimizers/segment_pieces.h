#pragma once

#include <array>

#include "kernels/cpu/rows.h"
#include "kernels/ops/context.h"
#include "kernels/ops/optimizers/optimizer.h"

COMERA_CPU_BEGIN

// The segments of flat vectors, cut into pieces that threads share. The pieces depend only on the segments,
// and their sums are added in order, so that results do not depend on the number of threads.
template <int sums>
class SegmentPieces {
 public:
  struct Piece {
    std::int64_t segment = 0, begin = 0, count = 0;  // begin: within the segment
    std::array<double, sums> sum = {};
  };

  // The scratch that a kernel needs. elements: of all segments, or more.
  static std::size_t bytes(std::int64_t elements, std::int64_t segment_count) {
    return static_cast<std::size_t>(elements / flat_piece + segment_count) * sizeof(Piece);
  }

  // segments: ParameterSegment, as bytes. The pieces lie in the kernel's scratch.
  SegmentPieces(const Tensor& segments, std::int64_t segment_count, const KernelContext& context)
      : segments_(static_cast<const ParameterSegment*>(segments.raw())),
        segment_count_(segment_count),
        pieces_(reinterpret_cast<Piece*>(context.scratch)) {
    for (std::int64_t s = 0; s < segment_count_; ++s)
      for (std::int64_t at = 0; at < segments_[s].count; at += flat_piece)
        pieces_[count_++] = {s, at, std::min(flat_piece, segments_[s].count - at)};
  }

  // body(piece, segment) for every piece, on all threads; it may set the piece's sums.
  template <class Body>
  void for_each(const Body& body) const {
    parallel_pieces(count_, thread_limit(),
                    [&](std::int64_t i, int) { body(pieces_[i], segments_[pieces_[i].segment]); });
  }

  // Then body(s, sums over segment s), in the order of the segments.
  template <class Body>
  void for_each_segment(const Body& body) const {
    for (std::int64_t i = 0, s = 0; s < segment_count_; ++s) {
      std::array<double, sums> total = {};
      for (; i < count_ && pieces_[i].segment == s; ++i)
        for (int k = 0; k < sums; ++k) total[k] += pieces_[i].sum[k];
      body(s, total);
    }
  }

 private:
  const ParameterSegment* segments_;
  std::int64_t segment_count_;
  Piece* pieces_;
  std::int64_t count_ = 0;
};

COMERA_CPU_END
