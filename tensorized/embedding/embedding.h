#pragma once

#include <memory>
#include <string>

#include "batches/lookup_ids.h"
#include "kernels/core/tensors/arena.h"
#include "kernels/core/tensors/parameter.h"
#include "kernels/ops/context.h"
#include "tensorized/decomposition/shapes.h"
#include "tensorized/embedding/ttm_chain.h"
#include "tensorized/linear/kinds.h"

namespace comera {

// A table with a row for each id, dense or a tensor-train matrix, which may also be the decoder of a masked
// language model.
class Embedding {
 public:
  // What a lookup gives: the row of id t is rows[index[t]]. Rows have the type of parameters, whatever that
  // of activations is.
  struct Rows {
    Tensor rows;   // (R, width)
    Tensor index;  // int32 (T)
  };
  // What a pass makes of the cores alone, for all that is done with the table in it, and where gradients of
  // the halves are summed until backward() makes those of the cores of them. Empty of a dense table, or where
  // nobody needs it.
  struct Merged {
    MergedTTM factors;
    Tensor right_by_rows;  // (R, rank, nr): the right half as lookups read it
    Tensor dleft, dright;  // as the halves; empty where only lookups have gradients
    bool decodes = false;

    explicit operator bool() const { return static_cast<bool>(factors.left); }
  };
  // A tied decoder's arguments: cross-entropy of h tableᵀ + bias (kernels/ops/elementwise/cross_entropy.h).
  struct Decoder {
    Tensor h;            // (P, width)
    Tensor targets;      // int32 (P)
    Tensor count;        // int32 (1): how many of the P are real
    Tensor bias, dbias;  // (rows of the table)
    bool gradient = false;
    Tensor dh;                       // out (P, width), with gradient
    Tensor results;                  // StepResults
    const Merged* merged = nullptr;  // null: made and used here alone
  };

  virtual ~Embedding() = default;

  // For the passes below, kept in the arena. decodes: whether it is a decoder in them, too. gradients: with
  // room for them, zero.
  virtual Merged merge(const Context& /*context*/, bool /*decodes*/, bool /*gradients*/) const { return {}; }
  // The rows lie in the scope, or are the table's own. Without `merged` all is made for this lookup alone.
  virtual Rows look_up(const Context& context, ArenaScope& scope, const LookupIds& ids,
                       const Merged* merged = nullptr) const = 0;
  // Adds the gradient of the rows; dy (T, width), that of id t at t; and those that `merged` has by then.
  virtual void backward(const Context& context, const LookupIds& ids, const Tensor& dy,
                        const Merged* merged = nullptr) const = 0;
  // Adds to results and, with gradient, to the table's gradient.
  virtual void cross_entropy(const Context& context, const Decoder& decoder) const = 0;
  // y (P, rows of the table) = h tableᵀ in the type of the parameters: logits without bias, for h (P, width)
  // in that of activations.
  virtual void decode(const Context& context, const Tensor& h, const Tensor& y,
                      const Merged* merged = nullptr) const = 0;
  virtual std::string shape_text() const = 0;
  // The table (rows, width) row-major, on the host and in double; rows are those of the vocabulary.
  virtual std::vector<double> table() const = 0;
  // Its train if it is one: for what is done with the parameters of all trains.
  virtual const TTMCores* as_tensor_train() const { return nullptr; }
  // Right rows of the train, for LookupIds::right_order; 0 if that order is not needed.
  virtual std::int64_t right_rows() const { return 0; }
};

// A TTM if there is a shape, otherwise dense. Rows start with the standard deviation `deviation`.
std::unique_ptr<Embedding> make_embedding(ParameterStore& store, const std::string& name,
                                          std::int64_t vocabulary, std::int64_t width, double deviation,
                                          const std::optional<TTMShape>& shape, LookupKind lookup,
                                          DecoderKind decoder = DecoderKind::automatic);

}  // namespace comera
