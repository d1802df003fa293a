#pragma once

#include "tensorized/densify.h"
#include "tensorized/embedding.h"
#include "tensorized/ttm_chain.h"

namespace comera {

// The table is a tensor-train matrix (CoMERA, sections 2 and 4.1) with rows beyond the vocabulary as padding.
// Lookups:  naive   a chain of small products for every token
//           unique  the same for every unique id of the batch
//           halves  both halves of the train merged once, then one small product for every unique id
// Nothing of a lookup is kept for backward. As a tied decoder it either works through the halves or, if
// that is less work, rebuilds the table in parts, of which one at a time is held.
class TTMEmbedding final : public Embedding {
 public:
  TTMEmbedding(ParameterStore& store, const std::string& name, std::int64_t vocabulary, const TTMShape& shape,
               double deviation, LookupKind lookup, DecoderKind decoder);

  Rows look_up(const Context& context, ArenaScope& scope, const LookupIds& ids) const override;
  void backward(const Context& context, const LookupIds& ids, const Tensor& dy) const override;
  void cross_entropy(const Context& context, const Decoder& decoder) const override;
  void decode(const Context& context, const Tensor& h, const Tensor& y) const override;
  std::string shape_text() const override { return train_.shape.text(); }
  std::vector<double> table() const override { return densify(store_, train_, vocabulary_); }
  const TTMCores* as_tensor_train() const override { return &train_; }
  std::int64_t right_rows() const override { return train_.right_rows(); }

 private:
  struct Halves {
    Tensor left;   // (L, nl, rank)
    Tensor right;  // (rank, R, nr)
  };
  Halves scratch_halves(ArenaScope& scope) const;
  std::int64_t positions_at_once(std::int64_t positions) const;
  bool decodes_by_rebuilding(std::int64_t positions) const;
  // Memory for some rows of the table at a time, and how many left rows that is.
  struct Rebuilding {
    std::int64_t left_rows;
    Tensor product;
  };
  Rebuilding scratch_rebuilding(ArenaScope& scope) const;
  // Writes the rows of `count` left rows from `first` on: all that share these left digits.
  void rebuild_rows(const Context& context, const Halves& halves, const Rebuilding& rebuilding,
                    std::int64_t first, std::int64_t count, const Tensor& rows) const;
  void structured_cross_entropy(const Context& context, const Decoder& decoder) const;
  void rebuilt_cross_entropy(const Context& context, const Decoder& decoder) const;
  void chain_forward(const Context& context, const Tensor& ids, const Tensor& count,
                     const Tensor& rows) const;
  void chain_backward(const Context& context, const Tensor& ids, const Tensor& count,
                      const Tensor& drows) const;

  const ParameterStore& store_;
  std::int64_t vocabulary_;
  TTMCores train_;
  LookupKind lookup_;
  DecoderKind decoder_;
};

}  // namespace comera
