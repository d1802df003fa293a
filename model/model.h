#pragma once

#include <memory>
#include <vector>

#include "model/encoder_network.h"
#include "model/missed_operations.h"
#include "model/trainable.h"

namespace comera {

// An encoder with its head, and all its parameters. With a head for replaced tokens it is the discriminator
// of ELECTRA (Clark et al., 2020), and trained beside a generator, a smaller masked-language encoder on the
// same embedding: a micro-batch first trains the generator and draws an id for each masked position from its
// distributions, then trains the encoder to tell which tokens were replaced. No gradient crosses the draw.
// All methods but run_micro_batch() are of the encoder alone.
class Model final : public Trainable {
 public:
  // Throws Error on an impossible configuration. Parameters are allocated with the allocator.
  Model(const EncoderConfig& config, Allocator& allocator, bool gradients);

  const EncoderConfig& config() const { return network_.config(); }

  // One micro-batch: forward, loss and, with `gradient`, backward. Adds gradients of the summed loss to the
  // store's; adds loss, targets and hits to step.results.
  void run_micro_batch(const EncoderStep& step, bool gradient) const;
  // Tensors derived from the parameters alone, for the methods below; kept in the arena, and reusable as
  // `merged` by many steps of this capacity and `read`. A step without them computes them itself.
  MergedEncoder prepare(const EncoderStep& step, const std::optional<RowSubset>& read) const;
  // The encoder's output (T, hidden), or the given rows of it (R, hidden), in the arena; the caller releases
  // it. Keeps nothing for a backward pass: of each block, only tensors derived from its cores remain.
  // states: what else is asked for, if not null.
  Tensor encode(const EncoderStep& step, const std::optional<RowSubset>& read = {},
                const InnerStates* states = nullptr) const;
  // The head's output for each sequence, y (S, sequence_outputs): logits of the classes, or one score. Throws
  // Error if the head reads tokens.
  void predict(const EncoderStep& step, const Tensor& y) const;
  // The head's logits for each masked position, y (masked positions of the capacity, token_outputs), in the
  // type of the parameters; rows beyond the batch's are undefined. Throws Error if the head reads sequences.
  void logits(const EncoderStep& step, const Tensor& y) const;
  // One vector per sequence, vectors (S, hidden); zero beyond the batch's sequences.
  void embed(const EncoderStep& step, Pooling pooling, const Tensor& vectors) const;
  // The same of the encoder's whole output, hidden (T, hidden).
  void pool(const EncoderStep& step, const Tensor& hidden, Pooling pooling, const Tensor& vectors) const {
    network_.pool(step, hidden, pooling, vectors);
  }

  // Calls visit for the linear layers of the blocks, in forward order, with what each reads, (T, inputs) in
  // the type of activations, and for those of a head on tokens with the encoder's output. scales (T), in the
  // type of parameters: what a norm multiplies the layer's outputs by, once the residual is added; empty
  // without such a norm. For layers that are evaluated one by one, as dense ones are; Error for others.
  using Visit = EncoderNetwork::Visit;
  void visit_inputs(const EncoderStep& step, const Visit& visit) const;

  const Head& head() const { return network_.head(); }
  const Embedding& token_embedding() const { return network_.embedding().tokens(); }
  // All linear layers in forward order, for reports.
  std::vector<const Linear*> linears() const;
  std::vector<std::pair<std::string, std::vector<double>>> dense_matrices() const override;
  // The fused operations that layers do not use for such micro-batches on such a GPU, operation by operation.
  std::vector<MissedOperation> missed_operations(const MachineModel& gpu,
                                                 const MicroBatchCapacity& micro_batch) const;
  // The token embedding first.
  std::vector<RankedLayer> ranked_layers() const override;
  Float8State* float8() const override { return float8_.get(); }
  void consolidate(const Context& context) const override;

 private:
  void add_float8(const Float8Config& config, Allocator& allocator);
  EncoderStep prepared(const EncoderStep& step, const std::optional<RowSubset>& read,
                       MergedEncoder& own) const;

  EncoderNetwork network_;
  std::unique_ptr<EncoderNetwork> generator_;  // null without one
  std::unique_ptr<Float8State> float8_;
  std::vector<std::vector<ParameterRange>> block_ranges_;
};

// The parameters of a model's generator, which only its training needs; 0 without one.
std::int64_t generator_parameters(const ParameterStore& store);
// Whether a parameter of this name is one of them.
inline bool is_of_generator(std::string_view parameter) { return parameter.starts_with("generator."); }

}  // namespace comera
