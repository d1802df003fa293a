#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/shared/step_values.h"

namespace comera {

struct Context;

// Softmax cross-entropy of rows whose logits have the layout (outer, rows, inner); class c = o inner + i.
// Classes at and beyond `classes` are padding. Row r of this chunk is row row_begin + r overall; rows at and
// beyond count have no loss and no gradient.
//
//   z = logits + bias;   loss = w (log Σ exp z - z[target]);   results: loss_sum += Σ loss,
//   target_count += Σ w, correct += the number of rows whose target has the largest logit
//
// w is the row's weight, 1 without weights. Without gradient, the content of logits afterwards is undefined.
// With gradient, logits are overwritten by w (softmax(z) - onehot(target)) (0 for padding), and dbias += its
// row sums: gradients are of the SUM over targets.
struct SoftmaxCrossEntropy {
  Tensor logits;        // in and out (outer, rows, inner)
  Tensor bias;          // (classes), or left out
  Tensor dbias;         // in and out (classes); with bias and gradient
  Tensor targets;       // int32 (all rows)
  Tensor weights = {};  // float32 (all rows), or left out
  Tensor count;         // int32 (1): number of valid rows overall
  std::int64_t row_begin = 0;
  std::int64_t classes = 0;
  bool gradient = false;
  Tensor results;  // StepResults

  DType compute() const { return logits.dtype(); }
  void check() const;
};

// Divergence of a teacher's distribution over the classes from that of the logits, both softened by a
// temperature t (Hinton et al., 2015), in the layout of SoftmaxCrossEntropy:
//
//   q = softmax((logits + bias) / t);   p = softmax(teacher / t);   loss = factor t² Σ p (log p - log q)
//
// results.loss_sum += Σ loss; rows are counted as targets only with `counts`, hits never. With gradient,
// logits are overwritten by factor t (q - p), 0 for padding and for rows at and beyond count, and dbias +=
// its row sums. Without, the content of logits afterwards is undefined.
struct SoftmaxDivergence {
  Tensor logits;   // in and out (outer, rows, inner)
  Tensor bias;     // (classes), or left out
  Tensor dbias;    // in and out (classes); with bias and gradient
  Tensor teacher;  // logits (all rows, classes), in the type of parameters
  Tensor count;    // int32 (1): number of valid rows overall
  std::int64_t row_begin = 0;
  std::int64_t classes = 0;
  double temperature = 1, factor = 1;
  bool counts = false;
  bool gradient = false;
  Tensor results;  // StepResults

  DType compute() const { return logits.dtype(); }
  void check() const;
};

// Draws a class for each row from softmax(logits + bias), in the layout of SoftmaxCrossEntropy: the first
// class up to which the probabilities sum to more than the row's uniform number, which depends on the step's
// key, the site and the row (kernels/shared/dropout.h). Logits are not changed.
struct DrawClasses {
  Tensor logits;  // (outer, rows, inner)
  Tensor bias;    // (classes), or left out
  Tensor count;   // int32 (1): number of valid rows overall
  std::int64_t row_begin = 0;
  std::int64_t classes = 0;
  std::uint32_t site = 0;  // of the step's random numbers
  Tensor step_inputs;
  Tensor drawn;  // out int32 (all rows): those of this chunk below the count are written

  DType compute() const { return logits.dtype(); }
  void check() const;
};

// Asks a cross-entropy for a class drawn for each row (DrawClasses). Nothing without `drawn`.
struct ClassDraws {
  std::uint32_t site = 0;
  Tensor step_inputs;
  Tensor drawn;  // int32 (all rows)
};

// What a teacher adds to a cross-entropy: SoftmaxDivergence of the same rows. Nothing without `teacher`.
struct SoftTargets {
  Tensor teacher;  // logits (all rows, classes), in the type of parameters
  double temperature = 1, factor = 1;
  bool alone = false;  // without the cross-entropy of the targets
};
// The cross-entropy, or its sum with the divergence, as one loss of the logits; before it the draws.
void softmax_losses(const Context& context, const SoftmaxCrossEntropy& op, const SoftTargets& soft,
                    const ClassDraws& draws = {});

// Cross-entropy of a tied decoder, logits = h tableᵀ + bias, over chunks of rows, so that rows x classes
// never exists as a whole. With gradient, the same pass writes dh and adds to dtable and dbias.
struct DenseMaskedCrossEntropy {
  Tensor h;              // (P, width)
  Tensor table, dtable;  // (classes, width); dtable in and out, with gradient
  Tensor bias, dbias;    // (classes)
  Tensor targets;        // int32 (P)
  Tensor count;          // int32 (1)
  SoftTargets soft = {};
  ClassDraws draws = {};
  bool gradient = false;
  Tensor dh;       // out (P, width), with gradient; may not be h
  Tensor results;  // StepResults

  DType compute() const { return h.dtype(); }
  void check() const;
};

// The same with the table of a tensor-train matrix, given by its left and right factors and never formed:
//   table[l R + r, a nr + b] = Σ_k left[l, a, k] right[b, k, r]
// left is (L, nl, rank), right is (nr, rank, R). Rows at and beyond classes are padding.
struct TTMMaskedCrossEntropy {
  Tensor h;              // (P, nl nr)
  Tensor left, dleft;    // (L, nl, rank); dleft in and out, with gradient
  Tensor right, dright;  // (nr, rank, R); dright in and out, with gradient
  Tensor bias, dbias;    // (classes)
  Tensor targets;        // int32 (P)
  Tensor count;          // int32 (1)
  SoftTargets soft = {};
  ClassDraws draws = {};
  bool gradient = false;
  Tensor dh;       // out (P, nl nr), with gradient
  Tensor results;  // StepResults

  DType compute() const { return h.dtype(); }
  void check() const;
};

}  // namespace comera
