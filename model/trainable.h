#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/tensors/memory.h"
#include "kernels/core/tensors/parameter.h"
#include "kernels/ops/context.h"
#include "tensorized/linear/float8_state.h"
#include "tensorized/ranked_layer.h"

namespace comera {

struct Step;
class Trainable;

// One batch in a device's memory, and the model that runs it. A training step is one micro-batch or several.
class MicroBatch {
 public:
  virtual ~MicroBatch() = default;

  // Where the batch lies. The host uploads a block of the same layout (batches/).
  virtual void* block() const = 0;
  virtual std::size_t block_bytes() const = 0;
  // Throws Error if the block was filled for micro-batches of another size.
  virtual void check(std::span<const std::byte> block) const = 0;
  // Forward, loss and, with `gradient`, backward. Adds gradients of the summed loss to those of the
  // parameters; adds loss, targets and hits to step.results.
  virtual void run(const Step& step, bool gradient) const = 0;
  // (units, 1), of the master type: what the last run without gradient answered to each example. Error for
  // kinds that keep no answers.
  virtual const Tensor& answers() const { throw Error("these micro-batches keep no answers"); }
};

// The layout of a phase's micro-batches, all of one size. Each kind of model has its own.
class PackLayout {
 public:
  virtual ~PackLayout() = default;

  virtual std::unique_ptr<MicroBatch> allocate(Allocator& allocator) const = 0;
  // For dry runs: its addresses must not be read.
  virtual std::unique_ptr<MicroBatch> measuring(Device device) const = 0;
  // The model that its micro-batches run.
  virtual const Trainable& model() const = 0;
  // The bytes that allocate() takes.
  virtual std::size_t bytes() const = 0;
  // For messages: "a micro-batch of 5120 tokens".
  virtual std::string text() const = 0;
  // Advice to a user on how to get micro-batches that are small enough according to `fits`: a part of a
  // sentence.
  virtual std::string how_to_fit(const std::function<bool(const PackLayout&)>& fits) const = 0;
};

// A trainable model (docs/developer/adding-a-model.md): parameters, and what StepEngine, Optimizer and rank
// adaptation need to know of the model. A model's PackLayout runs it.
class Trainable {
 public:
  virtual ~Trainable() = default;

  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }

  // The matrix of each linear layer as evaluated, by the name of that parameter of the same model with dense
  // layers; none where layers cannot become dense. On the host and in double.
  virtual std::vector<std::pair<std::string, std::vector<double>>> dense_matrices() const { return {}; }
  // The tensor trains that have ranks, in forward order, without removed ones.
  virtual std::vector<RankedLayer> ranked_layers() const = 0;
  // Scales of 8-bit operands; null without any.
  virtual Float8State* float8() const { return nullptr; }
  // Adds what training keeps apart from the evaluated weights to them (Linear::consolidate). Called between
  // an update and the next micro-batch.
  virtual void consolidate(const Context& /*context*/) const {}

  // Called during each micro-batch with ranges of the flat gradient vector that are complete for this
  // micro-batch.
  using GradientsReady = std::function<void(const std::vector<ParameterRange>&)>;
  void on_gradients_ready(GradientsReady callback) { gradients_ready_ = std::move(callback); }

 protected:
  Trainable() = default;
  Trainable(const Trainable&) = delete;  // modules refer to the store
  Trainable& operator=(const Trainable&) = delete;

  // Before every pass: rounds the weights to the type of activations, and sets whether the pass updates
  // scales of 8-bit operands.
  void begin_pass(const Context& context, bool training) const;
  // Whether a callback wants gradients during the pass: then they are completed as early as possible.
  bool announces_gradients() const { return static_cast<bool>(gradients_ready_); }
  void gradients_are_ready(const std::vector<ParameterRange>& ranges) const {
    if (gradients_ready_) gradients_ready_(ranges);
  }

  ParameterStore store_;

 private:
  GradientsReady gradients_ready_;
};

}  // namespace comera
