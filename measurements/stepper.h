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

// What the benchmarks of whole steps share.
namespace comera {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values);
// Of a[i] / b[i].
double median_ratio(const std::vector<double>& a, const std::vector<double>& b);

// UsageError if tokens and length do not fit each other, or the model.
void check_lengths(const StepBenchmarkOptions& options);

MicroBatchCapacity capacity_of(const StepBenchmarkOptions& options);
// Whole sequences of random tokens; the frequencies are Zipf's, as in text.
data::Batch random_batch(const StepBenchmarkOptions& options, const MicroBatchCapacity& capacity,
                         std::int64_t right_rows);

// A model of random weights that takes steps, all on the same batch.
class Stepper {
 public:
  Stepper(const EncoderConfig& config, const StepBenchmarkOptions& options, const Processor& processor);
  Stepper(const StepBenchmarkOptions& options, const Processor& processor)
      : Stepper(options.config, options, processor) {}

  // From now on steps are of this many tokens; the model is the same.
  void set_batch(const StepBenchmarkOptions& options);

  // From now on steps also descend and prune ranks as such a stage does.
  void adapt_ranks(const RankStageOptions& stage);  // before set_batch()
  void keep_ranks() { engine_.keep_ranks(); }       // or no longer do

  double step();         // its seconds, with one micro-batch
  double micro_batch();  // of a further micro-batch's forward and backward
  double merge();        // of a model with adapters
  double refresh();      // of an optimizer that does something before some updates
  // Of parameters, gradients, moments, activations and scratch.
  double memory_mib();
  // All that was allocated since this was made. What of a step's memory is scratch is workspace.
  MemoryByKind memory() const;
  const Arena::Plan& arena_plan() const { return engine_.arena_plan(); }
  const ParameterStore& parameters() { return model_.parameters(); }

 private:
  void micro();
  void apply();

  Allocator& allocator_;
  MemoryByKind before_;  // in use before the model was made
  Model model_;
  StepEngine engine_;
  double targets_ = 1;
  std::int64_t update_ = 0;
};

OccasionalWork occasional_work(Stepper& stepper, const Recipe& recipe);

// Seconds of steps, after one that is not counted: as many as a second has, from one to five.
std::vector<double> step_times(Stepper& stepper);

}  // namespace comera
