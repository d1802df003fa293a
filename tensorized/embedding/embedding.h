#pragma once

#include <memory>
#include <string>

#include "batches/lookup_ids.h"
#include "kernels/core/tensors/arena.h"
#include "kernels/core/tensors/parameter.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/cross_entropy.h"
#include "tensorized/decomposition/shapes.h"
#include "tensorized/embedding/ttm_chain.h"
#include "tensorized/linear/kinds.h"

namespace comera {

// A table with a row for each id, dense or a tensor-train matrix. It may also be the decoder of a masked
// language model.
class Embedding {
 public:
  // The result of a lookup: the row of id t is rows[index[t]]. Rows have the type of parameters, whatever the
  // type of activations.
  struct Rows {
    Tensor rows;   // (R, width)
    Tensor index;  // int32 (T)
  };
  // Tensors that a pass derives from the cores alone and uses for every operation on the table. Gradients of
  // the left and right factors are summed here until backward() turns them into gradients of the cores. Empty
  // for a dense table, or where it is not needed.
  struct Merged {
    MergedTTM factors;
    Tensor right_by_rows;  // (R, rank, nr): the right factor in the layout of lookups
    Tensor dleft, dright;  // shaped as the factors; empty where only lookups have gradients
    bool decodes = false;

    explicit operator bool() const { return static_cast<bool>(factors.left); }
  };
  // A tied decoder's arguments: cross-entropy of h tableᵀ + bias (kernels/ops/elementwise/cross_entropy.h).
  struct Decoder {
    Tensor h;            // (P, width), finite at and beyond the count, too
    Tensor targets;      // int32 (P)
    Tensor count;        // int32 (1): how many of the P are real
    Tensor bias, dbias;  // (rows of the table)
    SoftTargets soft{};  // of a teacher
    ClassDraws draws{};  // empty: no ids are drawn
    bool gradient = false;
    Tensor dh;                       // out (P, width), 0 at and beyond the count; with gradient
    Tensor results;                  // StepResults
    const Merged* merged = nullptr;  // null: computed for this call alone
  };

  virtual ~Embedding() = default;

  // For the calls below; kept in the arena. decodes: the table is also used as a decoder. gradients: with
  // zeroed gradient memory.
  virtual Merged merge(const Context& /*context*/, bool /*decodes*/, bool /*gradients*/) const { return {}; }
  // The rows lie in the scope, or are the table's own. Without `merged`, everything is computed for this
  // lookup alone.
  virtual Rows look_up(const Context& context, ArenaScope& scope, const LookupIds& ids,
                       const Merged* merged = nullptr) const = 0;
  // Adds the gradient of the rows and the gradients that `merged` has gathered. dy (T, width): row t belongs
  // to id t. Its rows at and beyond the count are not used, but must be finite.
  virtual void backward(const Context& context, const LookupIds& ids, const Tensor& dy,
                        const Merged* merged = nullptr) const = 0;
  // Adds to results and, with gradient, to the table's gradient.
  virtual void cross_entropy(const Context& context, const Decoder& decoder) const = 0;
  // y (P, rows of the table) = h tableᵀ in the type of the parameters: logits without bias. h (P, width) has
  // the type of activations.
  virtual void decode(const Context& context, const Tensor& h, const Tensor& y,
                      const Merged* merged = nullptr) const = 0;
  virtual std::string shape_text() const = 0;
  // The table (rows, width), row-major, on the host and in double; one row per vocabulary entry.
  virtual std::vector<double> table() const = 0;
  // The cores if the table is a TTM: for code that handles the parameters of all tensor trains.
  virtual const TTMCores* as_tensor_train() const { return nullptr; }
  // Right rows of the TTM, for LookupIds::right_order; 0 if that order is not needed.
  virtual std::int64_t right_rows() const { return 0; }
};

// A TTM if a shape is given, otherwise dense. Rows are initialised with standard deviation `deviation`.
std::unique_ptr<Embedding> make_embedding(ParameterStore& store, const std::string& name,
                                          std::int64_t vocabulary, std::int64_t width, double deviation,
                                          const std::optional<TTMShape>& shape, LookupKind lookup,
                                          DecoderKind decoder = DecoderKind::automatic);

}  // namespace comera
