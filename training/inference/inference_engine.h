#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/batching/loader.h"
#include "kernels/core/graph.h"
#include "kernels/ops/processor.h"
#include "model/model.h"

namespace comera {

// The micro-batches of one process: every so-many'th.
struct MicroBatchShare {
  std::int64_t process = 0, world_size = 1;
};

// Runs a model forward only: no dropout, no gradients. Of each block it keeps only what is made of its cores,
// which is made once for all micro-batches.
class InferenceEngine {
 public:
  enum class Output : std::uint8_t {
    predictions,  // of the head, for each sequence
    mean,         // vectors of the encoder: the mean over a sequence,
    first,        // or that of its first token
    logits,       // of a masked-language head, for each masked position
  };

  // The model must be in the processor's memory, and outlive this; its parameters stay as they are.
  InferenceEngine(const Model& model, Output output, const Processor& processor);
  InferenceEngine(const InferenceEngine&) = delete;
  InferenceEngine& operator=(const InferenceEngine&) = delete;

  // Numbers that each sequence or masked position gets.
  std::int64_t width() const;

  // Runs over all samples in micro-batches of that capacity, or over a process's share of the micro-batches.
  // visit gets a sample's number and its numbers, samples in no particular order; with Output::logits once
  // for each of the sample's targets, in their order. False if `stop` asked for an end on the way.
  using Visit = std::function<void(std::int64_t sample, std::span<const double> values)>;
  bool run(std::unique_ptr<data::SampleSource> samples, const MicroBatchCapacity& capacity,
           const Visit& visit, const std::function<bool()>& stop = {}, const MicroBatchShare& share = {});

 private:
  void require_positions(const data::SampleSource& samples) const;
  void set_capacity(const MicroBatchCapacity& capacity);
  Tensor values(const MicroBatchCapacity& capacity) const;
  EncoderStep step(const Context& context, const PackedBatch& batch, const MergedEncoder* merged) const;
  // Leaves what is made of the parameters alone in merged_.
  void prepare(const Context& context, const PackedBatch& batch);
  void forward(const Context& context, const PackedBatch& batch) const;

  const Model& model_;
  Output output_;
  Processor processor_;
  Stream stream_;
  Buffer inputs_, results_, outputs_;
  std::optional<Arena> arena_;
  std::optional<Context> context_;
  MergedEncoder merged_;  // in the arena
  PackedBatch batch_;
  std::unique_ptr<Feed> feed_;
  Graph graph_;
};

}  // namespace comera
