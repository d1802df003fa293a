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
#include "optim/weight_average.h"

namespace comera {

// What evaluations draw with (DrawClasses), by the number of their micro-batches.
constexpr DropoutKey evaluation_key(std::int64_t micro_batch) {
  return {.seed = 0x6576616c75617465, .step = 0, .micro_batch = static_cast<std::uint32_t>(micro_batch)};
}

// The values that change from step to step in a compressing phase: see StepInputs.
struct RankStep {
  double target = 0;
  double urgency = 1;
};

// A model's optimizer, all memory of a step, and the graphs of a phase: `micro` (forward, loss, backward and
// accumulation of one micro-batch), a variant for this process's last micro-batch of a step, which also sums
// over all processes, and `apply` (norm, clipping, optimizer).
class StepEngine {
 public:
  // The model must be in the processor's memory, with gradients, and outlive this.
  StepEngine(Trainable& model, const OptimizerOptions& optimizer, const Processor& processor);
  // For evaluation only: without an optimizer, and the model needs no gradients.
  StepEngine(Trainable& model, const Processor& processor);
  ~StepEngine();
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;

  Trainable& model() const { return model_; }
  const Processor& processor() const { return processor_; }
  Allocator& allocator() const { return processor_.allocator; }
  const Optimizer& optimizer() const { return *optimizer_; }
  // The state kept between steps besides parameters: the optimizer's, the importance of gate entries, and the
  // average of the weights.
  std::vector<ParameterState> states() const;

  // With OptimizerOptions::average_decay (optim/weight_average.h); otherwise begin and exchange do nothing.
  bool averages() const { return average_.has_value(); }
  // The parameters have been given, and no update has been made.
  void begin_average();
  // Between steps: puts the average in place of the parameters, or back.
  void exchange_average();
  // f() while the averages are in place of the parameters. If it throws, they stay.
  template <class F>
  auto with_average(const F& f) {
    exchange_average();
    auto result = f();
    exchange_average();
    return result;
  }

  // From now on this is one of several processes, and sums gradients in buckets of `bucket_bytes`. Called
  // before set_micro_batches(). The communicator must outlive this.
  void join(Communicator& communicator, std::int64_t bucket_bytes);
  // Milliseconds that the host has waited for other processes after its last micro-batch. Meaningless if a
  // GPU waits instead.
  double waited_ms() const { return waited_ms_; }

  // From now on apply() also descends the objective of a stage and prunes, or no longer does. Called before
  // set_micro_batches(), which rebuilds the graphs.
  // kept: further layers whose bonds all keep at least rank 1.
  void adapt_ranks(const RankUnits& units, const RankStageOptions& options,
                   const std::vector<std::string>& kept);
  void keep_ranks() { ranks_.reset(); }
  const RankAdaptation* ranks() const { return ranks_ ? &*ranks_ : nullptr; }

  // The micro-batches of a new phase: measures a step without computing anything, then allocates exactly
  // that. OutOfMemory says what would fit, if the device reports its free memory.
  void set_micro_batches(const PackLayout& micro_batches);

  // Uploads a batch to the device, which may still be working on the previous one. Throws Error if the block
  // is not one of the phase's micro-batches.
  void load(std::span<const std::byte> block);
  // One micro-batch of a training step: adds gradients, loss and counts. `last`: then sums them over all
  // processes, together with the largest magnitudes for 8-bit scales.
  void micro(const DropoutKey& key, bool last = true);
  // The end of a step, with `targets` in the global batch.
  void apply(std::int64_t update, double targets, const StepRates& learning_rates, double max_norm,
             const RankStep& rank_step = {});
  // Optimizer::refresh(), before apply() of that update; apply() also calls it.
  void refresh_optimizer(std::int64_t update);
  // Trainable::consolidate(), between updates.
  void consolidate();
  // One micro-batch without dropout and gradients: adds loss and counts. micro_batch: its number in the
  // evaluation, if the model draws anything.
  void evaluate(std::int64_t micro_batch = 0);

  // Results of the micro-batches and apply() since clear_results(). Waits for the device.
  const StepResults& results();
  void clear_results();

  // The phase's micro-batch. It owns its contents, apart from the loaded batch.
  const MicroBatch& micro_batch() const { return *micro_batch_; }
  // Bytes needed for backward, and additional scratch.
  const Arena::Plan& arena_plan() const { return plan_; }

 private:
  Graph graph(std::function<void()> body) const;
  Arena::Plan plan_for(const MicroBatch& micro_batch) const;
  std::string does_not_fit(const PackLayout& micro_batches, const Arena::Plan& plan) const;
  Step step(const Context& context, bool training) const;
  void send_inputs();
  void begin_last_sums();
  void run_last_micro_batch();
  void run_apply(const Context& context) const;

  Processor processor_;
  Trainable& model_;
  std::unique_ptr<Optimizer> optimizer_;      // null: evaluation only
  std::optional<GateImportance> importance_;  // for a trained model with tensor trains
  std::optional<RankAdaptation> ranks_;
  std::optional<WeightAverage> average_;
  Stream stream_;
  Buffer inputs_, results_;
  StepInputs host_inputs_;  // the content of inputs_ and results_ on the device
  StepResults host_results_;
  bool fetched_ = false;  // host_results_ equals results_
  std::unique_ptr<Feed> inputs_feed_, results_feed_, micro_batch_feed_;
  Arena::Plan plan_;  // of the arena; smaller micro-batches do not fill it
  std::optional<Arena> arena_;
  std::optional<Context> context_;
  std::unique_ptr<MicroBatch> micro_batch_;
  Communicator* communicator_ = nullptr;  // null: single process
  std::optional<GradientSum> gradient_sum_;
  bool summing_ = false;  // gradients that become ready are this process's final ones of the step
  double waited_ms_ = 0;
  Graph micro_, last_, apply_, merge_, evaluate_;
};

}  // namespace comera
