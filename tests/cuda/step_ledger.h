#pragma once

#include <string>
#include <vector>

#include "measurements/step_benchmark.h"
#include "tests/cuda/ledger_recipes.h"
#include "tests/cuda/time_model.h"

// Counts what training steps launch on the emulated CUDA backend, which computes nothing meanwhile.
namespace comera::test {

struct StepCount {
  std::vector<OperationCount> operations;  // those with most launches first
  double mib = 0;                          // memory of everything

  OperationCount find(const std::string& name) const;  // zeros if it does not run
  OperationCount all() const;
  double milliseconds(const time_model::Rates& rates = {}) const;
};

// One micro-batch in sequences of `length`, and the update, without graphs and rank adaptation.
StepBenchmarkOptions step_of(const Recipe& recipe, std::int64_t tokens, std::int64_t length);
StepCount count_of(const StepBenchmarkOptions& options);

// Also with gradients that are announced during the pass, as several processes want them.
struct BothCounts {
  StepCount together, announced;
};
BothCounts counts_of(const StepBenchmarkOptions& options);

}  // namespace comera::test
