#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// Rotary position embedding (Su et al., "RoFormer", 2021), in place. Entries i and i + size / 2 of a head
// form a point in a plane, which is rotated by an angle that grows with the token's position p =
// position_ids[t]:
//
//   (x_i, x_j) -> (x_i cos - x_j sin, x_j cos + x_i sin),   j = i + size / 2,
//   cos = turns[p, i], sin = turns[p, j]
//
// Scores of rotated queries and keys depend on their distance. backward: rotates gradients by the opposite
// angles.
struct Rotary {
  Tensor x;             // in and out (T, heads x size), size even
  Tensor position_ids;  // int32 (T)
  Tensor turns;         // (positions, size), in the master type
  bool backward = false;

  std::int64_t size() const { return turns.dim(1); }  // of a head
  DType compute() const { return x.dtype(); }
  void check() const;
};

}  // namespace comera
