#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// Rotary position embedding (Su et al., "RoFormer", 2021), in place. A head's numbers i and i + size / 2 are
// a point of a plane, which is turned by an angle that grows with the token's position p = position_ids[t]:
//
//   (x_i, x_j) -> (x_i cos - x_j sin, x_j cos + x_i sin),   j = i + size / 2,
//   cos = turns[p, i], sin = turns[p, j]
//
// Queries and keys that are turned so have scores that depend on their distance. backward: by the opposite
// angles, which is what gradients need.
struct Rotary {
  Tensor x;             // in and out (T, heads x size), size even
  Tensor position_ids;  // int32 (T)
  Tensor turns;         // (positions, size), of the master type
  bool backward = false;

  std::int64_t size() const { return turns.dim(1); }  // of a head
  DType compute() const { return x.dtype(); }
  void check() const;
};

}  // namespace comera
