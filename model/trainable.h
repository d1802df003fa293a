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

// One batch in a device's memory, and the model that runs over it. A training step is one micro-batch or
// several.
class MicroBatch {
 public:
  virtual ~MicroBatch() = default;

  // Where the batch lies. The host sends a block of the same layout (batches/).
  virtual void* block() const = 0;
  virtual std::size_t block_bytes() const = 0;
  // Throws Error if a block was not filled for micro-batches of this size.
  virtual void check(std::span<const std::byte> block) const = 0;
  // Forward, loss and, with `gradient`, backward. Gradients of the sum of the losses are added to those of
  // the parameters; loss, targets and hits are added to step.results.
  virtual void run(const Step& step, bool gradient) const = 0;
  // (units, 1), of the master type: what the last run without gradient answered to each example. Error for
  // kinds that keep no answers.
  virtual const Tensor& answers() const { throw Error("these micro-batches keep no answers"); }
};

// The micro-batches of a phase, all of one size. A model of each kind has its own.
class PackLayout {
 public:
  virtual ~PackLayout() = default;

  virtual std::unique_ptr<MicroBatch> allocate(Allocator& allocator) const = 0;
  // For dry runs: its addresses are such that nobody may read them.
  virtual std::unique_ptr<MicroBatch> measuring(Device device) const = 0;
  // The model that its micro-batches run.
  virtual const Trainable& model() const = 0;
  // What allocate() takes.
  virtual std::size_t bytes() const = 0;
  // For messages: "a micro-batch of 5120 tokens".
  virtual std::string text() const = 0;
  // What a user can do to get micro-batches that are small enough, as `fits` says of them: a part of a
  // sentence.
  virtual std::string how_to_fit(const std::function<bool(const PackLayout&)>& fits) const = 0;
};

// What can be trained (docs/developer/adding-a-model.md): parameters, and what a StepEngine, an Optimizer and
// the adaptation of ranks ask of the model that they belong to. A model's PackLayout runs it.
class Trainable {
 public:
  virtual ~Trainable() = default;

  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }

  // The tensor trains that have ranks, in forward order: without those that are removed.
  virtual std::vector<RankedLayer> ranked_layers() const = 0;
  // Scales of 8-bit operands; null without any.
  virtual Float8State* float8() const { return nullptr; }
  // Lets every layer's adapters become part of its weights (tensorized/linear/lte_linear.h); nothing without
  // any. Between an update and the next micro-batch.
  virtual void merge_adapters(const Context& /*context*/) const {}

  // Called in every micro-batch with the places of gradients in the flat vector to which this micro-batch
  // adds nothing more.
  using GradientsReady = std::function<void(const std::vector<ParameterRange>&)>;
  void on_gradients_ready(GradientsReady callback) { gradients_ready_ = std::move(callback); }

 protected:
  Trainable() = default;
  Trainable(const Trainable&) = delete;  // modules refer to the store
  Trainable& operator=(const Trainable&) = delete;

  // Before every pass: weights in the type of activations, rounded anew, and whether scales of 8-bit operands
  // learn from it.
  void begin_pass(const Context& context, bool training) const;
  // Whether anybody waits for gradients while a pass goes on: then they are complete as early as they can be.
  bool announces_gradients() const { return static_cast<bool>(gradients_ready_); }
  void gradients_are_ready(const std::vector<ParameterRange>& ranges) const {
    if (gradients_ready_) gradients_ready_(ranges);
  }

  ParameterStore store_;

 private:
  GradientsReady gradients_ready_;
};

}  // namespace comera
