#pragma once

#include <algorithm>
#include <functional>
#include <optional>

#include "tensorized/decomposition/densify.h"
#include "tensorized/embedding/embedding.h"
#include "tensorized/embedding/ttm_chain.h"

namespace comera {

// The table is a tensor-train matrix (CoMERA, sections 2 and 4.1) with rows beyond the vocabulary as padding.
// Lookups:
//   naive   a chain of small products for every token
//   unique  the same for every unique id of the batch
//   factors contracts the left and right factors once, then one small product for every unique id
// For backward, a lookup keeps only the factors. As a tied decoder, it either works through the factors or,
// if that is less work, rebuilds the table part by part and keeps one part at a time. With rows of their own
// for frequent ids, the parameter `name`.frequent, lookups are by `factors` and the decoder always rebuilds;
// what the train has for those ids is not used.
class TTMEmbedding final : public Embedding {
 public:
  TTMEmbedding(ParameterStore& store, const std::string& name, std::int64_t vocabulary, const TTMShape& shape,
               double deviation, LookupKind lookup, DecoderKind decoder);

  Merged merge(const Context& context, bool decodes, bool gradients) const override;
  Rows look_up(const Context& context, ArenaScope& scope, const LookupIds& ids,
               const Merged* merged) const override;
  void backward(const Context& context, const LookupIds& ids, const Tensor& dy,
                const Merged* merged) const override;
  void cross_entropy(const Context& context, const Decoder& decoder) const override;
  void decode(const Context& context, const Tensor& h, const Tensor& y, const Merged* merged) const override;
  std::string shape_text() const override { return train_.shape.text(); }
  std::vector<double> table() const override;
  const TTMCores* as_tensor_train() const override { return &train_; }
  std::int64_t right_rows() const override { return train_.right_rows(); }

 private:
  class SharedOrMade;
  Merged make(const Context& context, bool decodes, bool gradients) const;
  // Zeroed memory for gradients of the left and right factors, allocated by `take`.
  using Take = std::function<Tensor(Shape)>;
  static void add_gradients(const Context& context, const Take& take, Merged& merged);
  static bool shares(const Merged* merged) { return merged != nullptr && *merged; }
  // Adds the gradient of a right factor with another order of axes, or writes it if nothing else contributes.
  void add_to_right(const Context& context, const Merged& merged, const Tensor& from, bool alone) const;
  bool decodes_by_rebuilding(const MachineModel& machine, std::int64_t positions) const;
  // Left rows that hold an id of the vocabulary.
  std::int64_t used_left_rows() const {
    return (vocabulary_ + train_.right_rows() - 1) / train_.right_rows();
  }
  // Of a part of the table, whose logits of `rows` positions stay in a cache; 1: they need not.
  std::int64_t left_rows_at_once(const MachineModel& machine, std::int64_t rows) const;
  void structured_cross_entropy(const Context& context, const Decoder& decoder) const;
  void rebuilt_cross_entropy(const Context& context, const Decoder& decoder) const;
  Tensor frequent() const { return frequent_ ? store_.value(*frequent_) : Tensor(); }
  // How many of the rows [first, first + count) of the table are not the train's.
  std::int64_t frequent_in(std::int64_t first, std::int64_t count) const {
    return std::clamp<std::int64_t>(train_.shape.frequent_rows - first, 0, count);
  }
  // Some left rows' part of the table in the type of activations: in `memory`, or, of frequent rows alone,
  // where they are, as the pass began with them (begin_pass()).
  Tensor part_of_table(const Context& context, const MergedTTM& factors, std::int64_t left_row,
                       std::int64_t count, const Tensor& memory) const;
  // Adds the gradient of that part, which is overwritten, to those of the factors; what it holds of
  // frequent rows is of no meaning, since they have theirs.
  void back_to_factors(const Context& context, const Merged& merged, std::int64_t left_row,
                       std::int64_t count, const Tensor& drows) const;
  // Adds the gradients of looked-up rows to those of the left and right factors.
  void rows_backward(const Context& context, const LookupIds& ids, const Tensor& drows,
                     const Merged& merged) const;
  void chain_forward(const Context& context, const Tensor& ids, const Tensor& count,
                     const Tensor& rows) const;
  void chain_backward(const Context& context, const Tensor& ids, const Tensor& count,
                      const Tensor& drows) const;

  const ParameterStore& store_;
  std::int64_t vocabulary_;
  TTMCores train_;
  std::optional<ParameterId> frequent_;
  LookupKind lookup_;
  DecoderKind decoder_;
};

}  // namespace comera
