#pragma once

#include <array>
#include <memory>
#include <optional>

#include "model/config.h"
#include "model/encoder_step.h"
#include "model/layers/positions.h"
#include "tensorized/fused/tt_attention.h"
#include "tensorized/linear/linear.h"
#include "tensorized/linear/row_subset.h"

namespace comera {

// Multi-head self-attention over packed sequences, up to the output projection's bias, which the block
// applies. Tensor trains of small rank are evaluated without forming Q, K and V
// (tensorized/fused/tt_attention.h), unless rotary positions have to rotate Q and K. If the output projection
// is removed (Linear::removed), nothing is computed.
class Attention {
 public:
  // The tables must outlive this object.
  Attention(ParameterStore& store, const EncoderConfig& config, const PositionTables& positions,
            std::int64_t layer);

  struct Saved {
    Linear::Saved projections;  // Q, K, V
    Tensor context;             // (T, hidden): attended values
    Tensor read;                // (R, hidden): the rows that y has, or all
    Tensor log_sum_exp;         // (heads, T)
    Linear::Saved output;
    std::optional<TTAttention::Saved> between_factors;  // replaces the members above
    Tensor y;                                           // (R, hidden)
    // (T, hidden): what backward adds to the gradients of Q, K and V, as attention reads them; empty:
    // nothing.
    std::array<Tensor, 3> more_gradients;
  };
  // Tensors derived from the cores before the pass.
  struct Merged {
    std::optional<TTAttention::Merged> between_factors;
    MergedFactors projections, output;  // otherwise, if any
  };
  Merged merge(const EncoderStep& step, const RowSubset* rows, Merging& merging) const;
  // rows: the R rows of y; null: all.
  Saved forward(const EncoderStep& step, const Merged& merged, const Tensor& x, const RowSubset* rows) const;
  // Overwrites dy (R, hidden), which must not change until MergedGradients::end_block(). Writes dx (T,
  // hidden), or adds to it.
  void backward(const EncoderStep& step, const Saved& saved, const Tensor& dy, const Tensor& dx,
                bool accumulate_dx, const RowSubset* rows, MergedGradients& gradients) const;

  // Why attention is not computed between the factors, for micro-batches of `tokens` in sequences of up to
  // `length` and the given rows of y; nothing if it is.
  std::optional<std::string> why_not_between_factors(const MachineModel& machine, std::int64_t tokens,
                                                     std::int64_t length, std::int64_t rows) const;

  Linear& projections() const { return *projections_; }
  Linear& output() const { return *output_; }
  // Null if it is never computed so.
  TTAttention* between_factors() const { return between_factors_.get(); }

 private:
  TTAttention::Inputs inputs(const EncoderStep& step, const RowSubset* rows) const;
  // Rotates queries and keys, or rotates their gradients back, with rotary positions.
  void turn(const EncoderStep& step, const Tensor& q, const Tensor& k, bool backward) const;

  std::int64_t hidden_, heads_;
  const PositionTables& positions_;
  double dropout_;
  std::uint32_t site_;
  std::unique_ptr<Linear> projections_, output_;
  const char* never_ = nullptr;  // why it is never computed between the factors; null: it may be
  std::unique_ptr<TTAttention> between_factors_;
};

}  // namespace comera
