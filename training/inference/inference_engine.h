#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/batching/loader.h"
#include "kernels/core/graph.h"
#include "kernels/ops/processor.h"
#include "model/forward_step.h"
#include "model/model.h"

namespace comera {

// The micro-batches of one process: every `world_size`-th.
struct MicroBatchShare {
  std::int64_t process = 0, world_size = 1;
};

// Runs a model forward only, without dropout and gradients. Of each block it keeps only the tensors derived
// from its cores, which are computed once for all micro-batches.
class InferenceEngine {
 public:
  enum class Output : std::uint8_t {
    predictions,  // of the head, for each sequence: logits, or a score (not standardised)
    mean,         // encoder vectors: the mean over a sequence
    first,        // encoder vectors: that of the first token
    logits,       // of a head that reads tokens, for each masked position
  };

  // The model must be in the processor's memory, and outlive this; its parameters must not change.
  InferenceEngine(const Model& model, Output output, const Processor& processor);
  InferenceEngine(const InferenceEngine&) = delete;
  InferenceEngine& operator=(const InferenceEngine&) = delete;

  // The number of values for each sequence or masked position.
  std::int64_t width() const;

  // Runs all samples in micro-batches of that capacity, with room for more sequences where they are short, or
  // a process's share of the micro-batches. visit gets a sample's index and its values, samples in no
  // particular order; with Output::logits it is called once for each of the sample's targets, in their order.
  // False if `stop` requested a stop.
  using Visit = std::function<void(std::int64_t sample, std::span<const double> values)>;
  bool run(std::unique_ptr<data::SampleSource> samples, const MicroBatchCapacity& capacity,
           const Visit& visit, const std::function<bool()>& stop = {}, const MicroBatchShare& share = {});

 private:
  bool by_head() const { return output_ == Output::logits || output_ == Output::predictions; }
  void require_positions(const data::SampleSource& samples) const;
  void set_capacity(const MicroBatchCapacity& capacity);
  Tensor values(const MicroBatchCapacity& capacity) const;
  EncoderStep step(const Context& context, const PackedBatch& batch, const MergedEncoder* merged) const;
  // Stores the tensors derived from the parameters alone in merged_.
  void prepare(const Context& context, const PackedBatch& batch);
  void forward(const Context& context, const PackedBatch& batch) const;

  const Model& model_;
  Output output_;
  Processor processor_;
  Stream stream_;
  ForwardStep forward_;
  Buffer outputs_;
  std::optional<Arena> arena_;
  std::optional<Context> context_;
  MergedEncoder merged_;  // in the arena
  PackedBatch batch_;
  std::unique_ptr<Feed> feed_;
  Graph graph_;
};

}  // namespace comera
