#pragma once

#include <vector>

#include "kernels/core/tensors/memory.h"
#include "kernels/core/tensors/parameter.h"
#include "kernels/ops/context.h"
#include "model/config.h"

namespace comera {

// Position information for attention, besides a learned embedding of positions: tables in device memory,
// derived from the configuration and not saved. Only biases by distance are made from a parameter, which is
// frozen.
class PositionTables {
 public:
  // Allocates if the configuration needs memory.
  PositionTables(ParameterStore& store, const EncoderConfig& config, Allocator& allocator);

  // Makes the biases from their parameter as it is now.
  void make(const Context& context) const;

  // For AttentionForward: (heads, 2) with relative positions, otherwise empty.
  Tensor slopes() const { return slopes_; }
  // For Rotary: (max_positions, head size) with rotary positions, otherwise empty.
  Tensor turns() const { return turns_; }
  // For AttentionForward: (heads, 2 max_positions - 1) with relative buckets, otherwise empty.
  Tensor biases() const { return biases_; }

 private:
  void add_biases(ParameterStore& store, const EncoderConfig& config, Allocator& allocator);

  const ParameterStore& store_;
  std::optional<ParameterId> bucket_biases_;  // (buckets, heads)
  Buffer memory_, index_memory_;
  Tensor slopes_, turns_, biases_, by_distance_;  // by_distance_: biases_, transposed
  Tensor buckets_, count_;                        // int32: the bucket of each distance; their number
};

// The buckets of the distances from -(positions - 1) to positions - 1 of a key after its query: half of the
// buckets for each side; of these half for one distance each, the others grow like powers up to 128 (T5:
// Raffel et al., 2020). In single precision, as transformers computes them.
std::vector<std::int32_t> buckets_of_distances(std::int64_t positions, std::int64_t buckets);

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
