#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "data/batching/batch.h"
#include "kernels/ops/processor.h"
#include "measurements/step_benchmark.h"
#include "model/model.h"
#include "recipes/recipe.h"
#include "training/step/step_engine.h"

// Shared by the benchmarks of whole steps.
namespace comera {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values);
// The median of a[i] / b[i].
double median_ratio(const std::vector<double>& a, const std::vector<double>& b);

// UsageError if tokens and length do not fit each other, or the model.
void check_lengths(const StepBenchmarkOptions& options);

MicroBatchCapacity capacity_of(const StepBenchmarkOptions& options);
// Whole sequences of random tokens; frequencies follow Zipf's law, as in text.
data::Batch random_batch(const StepBenchmarkOptions& options, const MicroBatchCapacity& capacity,
                         std::int64_t right_rows);

MemoryByKind memory_in_use(const Allocator& allocator);

// A model of random weights that takes steps, all on the same batch.
class Stepper {
 public:
  Stepper(const EncoderConfig& config, const StepBenchmarkOptions& options, const Processor& processor);
  Stepper(const StepBenchmarkOptions& options, const Processor& processor)
      : Stepper(options.config, options, processor) {}

  // From now on steps have this many tokens; the model is the same.
  void set_batch(const StepBenchmarkOptions& options);

  // From now on steps also descend and prune ranks as in such a stage.
  void adapt_ranks(const RankStageOptions& stage);  // before set_batch()
  void keep_ranks() { engine_.keep_ranks(); }       // ends that

  // From now on a micro-batch completes gradients as early as possible, as in a job of several processes.
  void announce_gradients() {  // before set_batch()
    model_.on_gradients_ready([](const std::vector<ParameterRange>&) {});
  }

  double step();         // its seconds, with one micro-batch
  double micro_batch();  // for a further micro-batch's forward and backward
  double merge();        // for a model with adapters
  double refresh();      // for an optimizer with work before some updates
  // Memory of parameters, gradients, moments, activations and scratch.
  double memory_mib();
  // All allocations since construction. Scratch of a step counts as workspace.
  MemoryByKind memory() const;
  const Arena::Plan& arena_plan() const { return engine_.arena_plan(); }
  const ParameterStore& parameters() { return model_.parameters(); }

 private:
  void micro();
  void apply();

  Allocator& allocator_;
  MemoryByKind before_;  // in use before the model was constructed
  Model model_;
  StepEngine engine_;
  double targets_ = 1;
  std::int64_t update_ = 0;
};

OccasionalWork occasional_work(Stepper& stepper, const Recipe& recipe);

// Seconds of steps, after a warm-up step: as many as fit into a second, from one to five.
std::vector<double> step_times(Stepper& stepper);

}  // namespace comera
