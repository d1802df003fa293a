#pragma once

#include "kernels/shared/step_values.h"
#include "tensorized/fused/merging.h"
#include "tensorized/linear/row_subset.h"
#include "tensorized/linear/tt_linear_layer.h"

namespace comera {

// Self-attention whose Q, K, V and output projections are tensor trains, computed between their left and
// right factors. With xa_i = x A_i for Q, K and V, and the columns (or rows) h of a head,
//
//   Q_h K_hᵀ = (xa_Q C_h + c_h) xa_Kᵀ + a constant per row,  C_h = B_Qh B_Khᵀ,  c_h = bias_Qh B_Khᵀ
//   (P_h V_h) A_Oh = (P_h [xa_V, 1]) F_h,                    F_h = [B_Vh; bias_Vh] A_Oh
//   y = (Σ_h (P_h [xa_V, 1]) F_h) B_O
//
// Softmax ignores a row's constant, so the bias of K drops out and has gradient zero. Every head has the same
// keys xa_K and values xa_V (multi-query attention). If ranks are smaller than the head size, both products
// with scores shrink. Q, K, V and the attended values, each T x hidden, are never formed. A removed
// projection has zero factors of rank 1 here.
//
// In 8 bits the ranks are padded with zeros, so that every operand has a multiple of 16 rows and columns. The
// value's rank is padded to one less, since its factors have a row for the bias and the attended values have
// a column of ones.
class TTAttention {
 public:
  // The layers must outlive this and have the same hidden size; the output must not be removed.
  TTAttention(const ParameterStore& store, const TTLinear& projections, const TTLinear& output,
              std::int64_t heads);

  // In 8 bits its two linear maps multiply other tensors than the layers alone would, and have separate
  // scales.
  enum Part : std::uint8_t { to_query, to_output };
  using Float8Parts = std::array<Float8Layer, 2>;
  void use_float8(const Float8Parts& parts) { float8_ = parts; }

  // Why this does not replace the layers, for sequences of `length` and the given rows of y: it does if such
  // a machine evaluates every layer by left and right factors, and this class takes fewer floating-point
  // operations, as kernels pad them, than forming Q, K and V. `drops`: with dropout of probabilities.
  std::optional<std::string> why_not(const MachineModel& machine, std::int64_t tokens, std::int64_t length,
                                     std::int64_t rows, bool drops) const;

  struct Inputs {
    Tensor sequence_offsets;
    std::int64_t longest = 0;
    DropoutSpec dropout;
    Tensor step_inputs;
    Tensor slopes = {}, biases = {};  // of AttentionForward
    const RowSubset* rows = nullptr;  // the rows of y; null: all
  };
  // Tensors derived from the cores alone.
  struct Merged {
    // In the compute type, or with 8 bits in its master type: operands of products with tokens.
    Tensor a;               // (hidden, r_Q + r_K + r_V): A_Q, A_K, A_V
    Tensor b_output;        // (r_O, hidden)
    Tensor c;               // (r_Q, heads r_K): C_h side by side
    Tensor f;               // (heads (r_V + 1), r_O): F_h one below the other
    Tensor rounded_c_bias;  // (heads r_K): c_bias, where the compute type is narrow
    // In its master type.
    Tensor c_bias;            // (heads r_K): c_h
    Tensor a_output;          // (hidden, r_O)
    Tensor b_query, b_value;  // (r_Q + 1, hidden) and (r_V + 1, hidden): the last row is the bias
    Tensor b_key;             // (r_K, hidden)
  };
  Merged merge(Merging& merging) const;

  struct Saved {
    Tensor x;
    Merged merged;
    // In the type of x.
    Tensor xa;           // (T, r_Q + r_K + r_V)
    Tensor query;        // (T, heads r_K)
    Tensor attended;     // (T, heads (r_V + 1))
    Tensor read;         // (R, heads (r_V + 1)): the rows of `attended` that y has, or all
    Tensor xa_output;    // (R, r_O)
    Tensor y;            // (R, hidden), without the output's bias
    Tensor log_sum_exp;  // (heads, T), of its master type
  };
  Saved forward(const Context& context, const Inputs& inputs, const Merged& merged, const Tensor& x) const;
  // Overwrites dy (R, hidden). Writes dx (T, hidden), or adds to it. Adds gradients of biases, and of cores
  // if `gradients`.
  void backward(const Context& context, const Inputs& inputs, const Saved& saved, const Tensor& dy,
                const Tensor& dx, bool accumulate_dx, MergedGradients& gradients) const;

 private:
  struct Ranks {
    std::int64_t query, key, value, output;
    std::int64_t unused = 0;  // columns after the value's columns
    std::int64_t used_value =
        0;  // the first of the value's columns, if the others are zeros that end a whole unit
    std::int64_t all() const { return query + key + value + unused; }
  };
  // The layers' ranks, padded if necessary.
  Ranks ranks(bool float8) const;
  bool in_float8() const { return float8_ && projections_.fits_float8() && output_.fits_float8(); }
  // Runs the operation as it is, or with 8-bit operands.
  void run_forward(const Context& context, Part part, const TTLinearForward& operation) const;
  void run_backward(const Context& context, Part part, const TTLinearBackward& operation) const;
  // Memory for a pass's gradients of the contracted tensors.
  struct OfMerged {
    Tensor df, db_output, da, dc;  // dc (r_Q + 1, heads r_K): the last row is of c_bias
    Tensor db_query, db_value, db_key, da_output;
  };
  PackedTensors gradients_of_merged() const;
  // Propagates the gradients of c and f to the factors, and further to the cores.
  void merge_backward(const Merged& merged, const OfMerged& of, MergedGradients& gradients) const;

  const ParameterStore& store_;
  const TTLinear& projections_;
  const TTLinear& output_;
  std::int64_t hidden_, heads_, head_size_;
  std::optional<Float8Parts> float8_;
};

}  // namespace comera
