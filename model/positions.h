#pragma once

#include <vector>

#include "kernels/core/memory.h"
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
// for both directions). Of every four heads one looks back and one looks ahead only, with slopes of their
// pairs from 1 to 1/4 in equal ratios; the others see both sides, with slopes from 1/4 to 1/16, 1/64 or 1/256
// for 2, 4 or more of them. One head alone sees both sides.
struct HeadSlopes {
  double before = 0, behind = 0;
  friend bool operator==(const HeadSlopes&, const HeadSlopes&) = default;
};
std::vector<HeadSlopes> head_slopes(std::int64_t heads);

// turns[p, i] = cos(p theta^(-2 i / size)) and turns[p, size / 2 + i] = its sine, for i below size / 2.
std::vector<double> rotary_turns(std::int64_t positions, std::int64_t size, double theta);

}  // namespace comera
