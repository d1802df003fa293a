#pragma once

#include <memory>
#include <string>

#include "kernels/core/packed_batch.h"
#include "kernels/core/parameter.h"
#include "kernels/ops/context.h"
#include "tensorized/kinds.h"
#include "tensorized/shapes.h"

namespace comera {

struct TTMCores;

// The token embedding, dense or a tensor-train matrix, which may also be the decoder of a masked language
// model.
class Embedding {
 public:
  // What is added to each token's row.
  struct Tables {
    Tensor positions;  // (max positions, width), or left out
    Tensor types;      // (types, width)
  };
  // A tied decoder's arguments: cross-entropy of h tableᵀ + bias (kernels/ops/cross_entropy.h).
  struct Decoder {
    Tensor h;            // (P, width)
    Tensor bias, dbias;  // (vocabulary)
    bool gradient = false;
    Tensor dh;       // out (P, width), with gradient
    Tensor results;  // StepResults
  };

  virtual ~Embedding() = default;

  // y[t] = row of token t + positions + types
  virtual void forward(const Context& context, const PackedBatch& batch, const Tables& tables,
                       const Tensor& y) const = 0;
  // Adds the gradient of the rows; dy is (T, width).
  virtual void backward(const Context& context, const PackedBatch& batch, const Tensor& dy) const = 0;
  // Adds to results and, with gradient, to the table's gradient.
  virtual void masked_cross_entropy(const Context& context, const PackedBatch& batch,
                                    const Decoder& decoder) const = 0;
  // y (P, vocabulary) = h tableᵀ in the type of the parameters: logits without bias, for h (P, width) in that
  // of activations.
  virtual void decode(const Context& context, const Tensor& h, const Tensor& y) const = 0;
  virtual std::string shape_text() const = 0;
  // Its train if it is one: for what is done with the parameters of all trains.
  virtual const TTMCores* as_tensor_train() const { return nullptr; }
  // Right half of the ids for PackedBatch::right_order; 0 if the order is not needed.
  virtual std::int64_t right_rows() const { return 0; }
};

// A TTM if there is a shape, otherwise dense. Rows start with the standard deviation `deviation`.
std::unique_ptr<Embedding> make_embedding(ParameterStore& store, const std::string& name,
                                          std::int64_t vocabulary, std::int64_t width, double deviation,
                                          const std::optional<TTMShape>& shape, LookupKind lookup,
                                          DecoderKind decoder = DecoderKind::automatic);

}  // namespace comera
