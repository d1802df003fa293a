#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bench/step_benchmark.h"
#include "data/batch.h"
#include "kernels/ops/processor.h"
#include "model/model.h"
#include "training/step_engine.h"

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

PackCapacity capacity_of(const StepBenchmarkOptions& options);
// Whole sequences of random tokens; the frequencies are Zipf's, as in text.
data::Batch random_batch(const StepBenchmarkOptions& options, const PackCapacity& capacity,
                         std::int64_t right_rows);

// A model of random weights that takes steps, all on the same batch.
class Stepper {
 public:
  Stepper(const EncoderConfig& config, const StepBenchmarkOptions& options, const Processor& processor);
  Stepper(const StepBenchmarkOptions& options, const Processor& processor)
      : Stepper(options.config, options, processor) {}

  // From now on steps are of this many tokens; the model is the same.
  void set_batch(const StepBenchmarkOptions& options);

  double step();     // its seconds
  double merge();    // of a model with adapters
  double refresh();  // of an optimizer that does something before some updates
  // Of parameters, gradients, moments, activations and scratch.
  double memory_mib();
  const Arena::Plan& arena_plan() const { return engine_.arena_plan(); }
  const ParameterStore& parameters() { return model_.parameters(); }

 private:
  void apply();

  Model model_;
  StepEngine engine_;
  double targets_ = 1;
  std::int64_t update_ = 0;
};

}  // namespace comera
