#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kernels/ops/processor.h"
#include "model/config.h"
#include "optim/optimizer.h"

namespace comera {

class Teacher;

struct StepBenchmarkOptions {
  EncoderConfig config;        // with its tensor trains; the dense baseline is made from it
  OptimizerOptions optimizer;  // for both
  std::int64_t tokens = 4096;  // packed, in sequences of `length`
  std::int64_t length = 128;
  double mask_probability = 0.15;  // share of the tokens that are targets
  int repeats = 5;
  bool profile = false;          // adds a table of where the step's time goes, next to the minimal work
  bool only_tensorized = false;  // without the dense baseline, which takes most of the time
  std::string device = "auto";   // as in find_processor()
  OperandKind operands = OperandKind::as_they_are;
  bool initialize = true;      // parameters; otherwise steps can only be counted
  bool graphs = true;          // on a GPU: replays recorded steps
  Teacher* teacher = nullptr;  // of a student; null: it learns from no answers
  // What the micro-batch holds, if it is not full; 0 sequences: it is.
  std::int64_t held_sequences = 0, held_length = 0, held_examples = 0;
};

using MemoryByKind = std::array<std::size_t, memory_kinds>;  // bytes

// Work done only in some steps: GaLore's subspaces, the merges of LTE.
struct OccasionalWork {
  std::string name;  // empty: none
  double seconds = 0;
  std::int64_t steps = 0;  // once in this many steps
  double seconds_per_step() const { return steps > 0 ? seconds / static_cast<double>(steps) : 0; }
};

// Times whole optimizer steps of a model and its dense baseline in turn, and measures the machine's ceilings,
// all in one run: medians and ratios, as text. On the CPU also one encoder layer alone.
std::string benchmark_step(const StepBenchmarkOptions& options);

}  // namespace comera
