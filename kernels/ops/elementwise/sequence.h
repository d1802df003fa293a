#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// y[s] = the mean of x[t] over the tokens t of sequence s for s below count, 0 beyond.
struct SequenceMean {
  Tensor x;        // (T, width)
  Tensor offsets;  // int32 (S + 1): sequence s is rows [offsets[s], offsets[s + 1])
  Tensor count;    // int32 (1)
  Tensor y;        // out (S, width)

  DType compute() const { return x.dtype(); }
  void check() const;
};

// dx[t] = dy[s] / length of s for the tokens t of sequence s below count, 0 for rows outside sequences.
struct SequenceMeanBackward {
  Tensor dy;       // (S, width)
  Tensor offsets;  // int32 (S + 1)
  Tensor count;    // int32 (1)
  Tensor dx;       // out (T, width)

  DType compute() const { return dy.dtype(); }
  void check() const;
};

// Features of two vectors u = x[2e] and v = x[2e + 1]: y[e] = [u, v, |u - v|, u v], for e below count, 0
// beyond (Reimers and Gurevych, 2019; Conneau et al., 2017).
struct PairFeaturesForward {
  Tensor x;      // (S, width)
  Tensor count;  // int32 (1): pairs
  Tensor y;      // out (S / 2, 4 width)

  DType compute() const { return x.dtype(); }
  void check() const;
};

// du = dy_1 + sign(u - v) dy_3 + v dy_4, dv = dy_2 - sign(u - v) dy_3 + u dy_4; 0 for rows outside pairs.
struct PairFeaturesBackward {
  Tensor x;      // (S, width)
  Tensor count;  // int32 (1)
  Tensor dy;     // (S / 2, 4 width)
  Tensor dx;     // out (S, width)

  DType compute() const { return x.dtype(); }
  void check() const;
};

// Squared error of one prediction per sequence: loss = Σ_s (p_s - y_s)² over s below count. With gradient, p
// becomes 2 (p - y), and 0 beyond count.
struct SquaredError {
  Tensor predictions;  // in and, with gradient, out (S, 1)
  Tensor scores;       // float32 (S)
  Tensor count;        // int32 (1)
  bool gradient = false;
  Tensor results;  // StepResults: loss and count are added

  DType compute() const { return predictions.dtype(); }
  void check() const;
};

// Squared distance of rows from others, as a mean over the rows below count: with m = count, or count² where
// the columns are as many as the rows,
//   loss = factor targets / m Σ |x[r] - to[r]|²
// so that a micro-batch's mean counts as often as it has targets. results.loss_sum += loss alone. With
// gradient, x becomes 2 factor targets / m (x - to), and 0 at and beyond count.
struct SquaredDistance {
  Tensor x;             // in and, with gradient, out (rows, width)
  Tensor to;            // (rows, width)
  Tensor count;         // int32 (1)
  Tensor targets;       // int32 (1)
  bool square = false;  // whether m is count²
  bool counts = false;  // whether results.target_count += targets
  double factor = 1;
  bool gradient = false;
  Tensor results;  // StepResults

  DType compute() const { return x.dtype(); }
  void check() const;
};

// Divergence of a teacher's relations between the tokens of a sequence from a student's (MiniLM: Wang et al.,
// 2021, arXiv 2012.15828): head by head P = softmax(c Y Yᵀ) and P' = softmax(c' X Xᵀ), of the teacher's rows
// Y and the student's X. It reads what attention computes with them, whose log_sum_exp are l and l':
//   loss = factor targets / count Σ_t (c y_t · (P Y)_t - c' x_t · (P X)_t - Σ_h (l - l')[h, t])
// over the rows t below count, which is Σ P (log P - log P'). results.loss_sum += loss alone. With gradient,
// own_attended becomes factor c' targets / count (P' X - P X + P'ᵀ X - Pᵀ X), and 0 at and beyond count.
struct RelationDivergence {
  Tensor x;                            // (T, width)
  Tensor y;                            // (T, teacher's width)
  Tensor attended;                     // P X
  Tensor taught_attended;              // P Y
  Tensor log_sums;                     // l' (heads, T)
  Tensor taught_log_sums;              // l (heads, T)
  Tensor own_attended;                 // in and out, with gradient: P' X
  Tensor own_turned;                   // with gradient: P'ᵀ X
  Tensor taught_turned;                // with gradient: Pᵀ X
  double scale = 1, taught_scale = 1;  // c', c
  Tensor count;                        // int32 (1)
  Tensor targets;                      // int32 (1)
  bool counts = false;                 // whether results.target_count += targets
  double factor = 1;
  bool gradient = false;
  Tensor results;  // StepResults

  DType compute() const { return x.dtype(); }
  void check() const;
};

}  // namespace comera
