#pragma once

#include <vector>

#include "kernels/core/tensors/memory.h"
#include "model/config.h"

namespace comera {

// Position information for attention, besides a learned embedding of positions: constants in device memory,
// derived from the configuration and not saved.
class PositionTables {
 public:
  // Allocates if config.positions needs memory.
  PositionTables(const EncoderConfig& config, Allocator& allocator);

  // For AttentionForward: (heads, 2) with relative positions, otherwise empty.
  Tensor slopes() const { return slopes_; }
  // For Rotary: (max_positions, head size) with rotary positions, otherwise empty.
  Tensor turns() const { return turns_; }

 private:
  Buffer memory_;
  Tensor slopes_, turns_;
};

// The slope of a side that a head ignores: large enough that no probability is left at a distance of one.
inline constexpr double blind_slope = 1e4;

// How the scores of each head fall with the distance before and after a query (ALiBi: Press et al., 2022,
// extended to both directions). Of every four heads, or of two or three where there are no more, one looks
// only back and one only ahead, with slopes of their pairs from 1 down to 1/4 in equal ratios (1 for one
// pair). The n others see both sides, with slopes from 1/4 down to 2^-(2 + n), or 1/256 where that is more,
// in equal ratios (1/4 for one head).
struct HeadSlopes {
  double before = 0, behind = 0;
  friend bool operator==(const HeadSlopes&, const HeadSlopes&) = default;
};
std::vector<HeadSlopes> head_slopes(std::int64_t heads);

// A row of `size` values for each of `count` positions p, starting at `first`: cos(p theta^(-2 i / size)) for
// each i below size / 2, then the sines.
std::vector<double> rotary_turns(std::int64_t first, std::int64_t count, std::int64_t size, double theta);

}  // namespace comera
