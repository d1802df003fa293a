#pragma once

#include <vector>

#include "kernels/core/tensors/memory.h"
#include "model/config.h"

namespace comera {

// What attention is given so that it knows where tokens are, beside a learned embedding of positions:
// constants in device memory, which follow from the configuration and are not saved.
class PositionTables {
 public:
  // Gets memory from the allocator where config.positions needs some.
  PositionTables(const EncoderConfig& config, Allocator& allocator);

  // Of AttentionForward (heads, 2), with relative positions; or left out.
  Tensor slopes() const { return slopes_; }
  // Of Rotary (max_positions, head size), with rotary positions; or left out.
  Tensor turns() const { return turns_; }

 private:
  Buffer memory_;
  Tensor slopes_, turns_;
};

// A side that a head does not see: large enough that no probability is left at a distance of one.
inline constexpr double blind_slope = 1e4;

// How the scores of each head fall with distance before and behind a query (ALiBi: Press et al., 2022, made
// for both directions). Of every four heads, or of two or three where there are no more, one looks back and
// one looks ahead only, with slopes of their pairs from 1 down to 1/4 in equal ratios (1 for one pair). The n
// others see both sides, with slopes from 1/4 down to 2^-(2 + n), or 1/256 where that is more, in equal
// ratios (1/4 for one head).
struct HeadSlopes {
  double before = 0, behind = 0;
  friend bool operator==(const HeadSlopes&, const HeadSlopes&) = default;
};
std::vector<HeadSlopes> head_slopes(std::int64_t heads);

// A row of `size` numbers for each of `count` positions p, from `first` on: cos(p theta^(-2 i / size)) for
// each i below size / 2, then their sines.
std::vector<double> rotary_turns(std::int64_t first, std::int64_t count, std::int64_t size, double theta);

}  // namespace comera
