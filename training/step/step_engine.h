#pragma once

#include <cstddef>
#include <functional>

#include <memory>
#include <optional>
#include <span>

#include "distributed/gradient_sum.h"
#include "kernels/core/graph.h"
#include "kernels/ops/processor.h"
#include "model/trainable.h"
#include "optim/optimizer.h"
#include "optim/rank_adaptation.h"

namespace comera {

// What changes from step to step of a phase that compresses: see StepInputs.
struct RankStep {
  double target = 0;
  double urgency = 1;
};

// A model's optimizer and all memory of a step, and the graphs of a phase: `micro` (forward, loss,
// backward and accumulation of one micro-batch), the same for this process's last micro-batch of a step,
// which sums over all processes on the way, and `apply` (norm, clipping, optimizer).
class StepEngine {
 public:
  // The model must be in the processor's memory, with gradients, and outlive this.
  StepEngine(Trainable& model, const OptimizerOptions& optimizer, const Processor& processor);
  // Only to evaluate: without an optimizer, and the model needs no gradients.
  StepEngine(Trainable& model, const Processor& processor);
  ~StepEngine();
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;

  Trainable& model() const { return model_; }
  const Processor& processor() const { return processor_; }
  Allocator& allocator() const { return processor_.allocator; }
  const Optimizer& optimizer() const { return *optimizer_; }
  // What is kept beside parameters from step to step: the optimizer's, and how important entries of gates
  // are.
  std::vector<ParameterState> states() const;

  // From now on this is one of several processes, and sums gradients in buckets of so many bytes. Before
  // set_micro_batches(). The communicator must outlive this.
  void join(Communicator& communicator, std::int64_t bucket_bytes);
  // Milliseconds that the host has waited for other processes behind its last micro-batch. Where a GPU waits
  // instead it is of no meaning.
  double waited_ms() const { return waited_ms_; }

  // From now on apply() also descends the objective of a stage and prunes; or no longer does. Before
  // set_micro_batches(), which remakes the graphs.
  // kept: layers of which every bond keeps at least rank 1, beside those of which it always does.
  void adapt_ranks(const RankUnits& units, const RankStageOptions& options,
                   const std::vector<std::string>& kept);
  void keep_ranks() { ranks_.reset(); }
  const RankAdaptation* ranks() const { return ranks_ ? &*ranks_ : nullptr; }

  // The micro-batches of a new phase: measures a step without computing anything, then allocates just that.
  // OutOfMemory says what would fit, where the device tells how much memory it has left.
  void set_micro_batches(const PackLayout& micro_batches);

  // Sends a batch to the device, which may still work with the one before. Throws Error if the block is not
  // one of the phase's micro-batches.
  void load(std::span<const std::byte> block);
  // One micro-batch of a training step: gradients, loss and counts are added. `last`: then they are summed
  // over all processes, and so are the largest magnitudes that 8-bit scales follow from.
  void micro(const DropoutKey& key, bool last = true);
  // The end of a step, with `targets` in the global batch.
  void apply(std::int64_t update, double targets, const StepRates& learning_rates, double max_norm,
             const RankStep& rank_step = {});
  // Before apply() of that update, which does it by itself: Optimizer::refresh().
  void refresh_optimizer(std::int64_t update);
  // Between the updates of a model with adapters: Trainable::merge_adapters().
  void merge_adapters();
  // One micro-batch without dropout and gradients: loss and counts are added.
  void evaluate();

  // Of the micro-batches and apply() since clear_results(): waits for the device.
  const StepResults& results();
  void clear_results();

  // Of the phase: what it holds, beside the batch that was loaded, is its own matter.
  const MicroBatch& micro_batch() const { return *micro_batch_; }
  // Bytes: what backward needs, and scratch beside it.
  const Arena::Plan& arena_plan() const { return plan_; }

 private:
  Graph graph(std::function<void()> body) const;
  Arena::Plan plan_for(const MicroBatch& micro_batch) const;
  std::string does_not_fit(const PackLayout& micro_batches, const Arena::Plan& plan) const;
  Step step(const Context& context, bool training) const;
  void send_inputs();
  void run_last_micro_batch();
  void run_apply(const Context& context) const;

  Processor processor_;
  Trainable& model_;
  std::unique_ptr<Optimizer> optimizer_;      // null: only to evaluate
  std::optional<GateImportance> importance_;  // of a model with tensor trains that is trained
  std::optional<RankAdaptation> ranks_;
  Stream stream_;
  Buffer inputs_, results_;
  StepInputs host_inputs_;  // what inputs_ and results_ hold on the device
  StepResults host_results_;
  bool fetched_ = false;  // host_results_ is what results_ holds
  std::unique_ptr<Feed> inputs_feed_, results_feed_, micro_batch_feed_;
  Arena::Plan plan_;  // of the arena, which micro-batches with less in them do not fill
  std::optional<Arena> arena_;
  std::optional<Context> context_;
  std::unique_ptr<MicroBatch> micro_batch_;
  Communicator* communicator_ = nullptr;  // null: alone
  std::optional<GradientSum> gradient_sum_;
  bool summing_ = false;  // gradients that become ready are this process's of the step
  double waited_ms_ = 0;
  Graph micro_, last_, apply_, merge_, evaluate_;
};

}  // namespace comera
