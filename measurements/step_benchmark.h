#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kernels/ops/processor.h"
#include "model/config.h"
#include "optim/optimizer.h"

namespace comera {

struct StepBenchmarkOptions {
  EncoderConfig config;        // with its tensor trains; the dense baseline is made from it
  OptimizerOptions optimizer;  // of both
  std::int64_t tokens = 4096;  // packed, in sequences of `length`
  std::int64_t length = 128;
  double mask_probability = 0.15;  // share of the tokens that are targets
  int repeats = 5;
  bool profile = false;  // also a table of where the step's time goes, beside what its work needs at least
  bool only_tensorized = false;  // without the dense baseline, which takes most of the time
  std::string device = "auto";   // as find_processor() takes it
  OperandKind operands = OperandKind::as_they_are;
  bool graphs = true;  // on a GPU: replay recorded steps
};

using MemoryByKind = std::array<std::size_t, memory_kinds>;  // bytes

// What is done on some steps only: GaLore's subspaces, the merges of LTE.
struct OccasionalWork {
  std::string name;  // empty: there is none
  double seconds = 0;
  std::int64_t steps = 0;  // so many have it once
  double seconds_per_step() const { return steps > 0 ? seconds / static_cast<double>(steps) : 0; }
};

// Times whole optimizer steps of a model and of its dense baseline in turn and what the machine can do at
// best, all in one run: medians and ratios, as text. On the CPU also one encoder layer by itself.
std::string benchmark_step(const StepBenchmarkOptions& options);

}  // namespace comera
