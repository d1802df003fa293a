#pragma once

#include <string>

#include "kernels/ops/processor.h"
#include "model/config.h"
#include "optim/optimizer.h"

namespace comera {

struct StepBenchmarkOptions {
  EncoderConfig config;        // with its tensor trains; the dense twin is made from it
  OptimizerOptions optimizer;  // of both
  std::int64_t tokens = 4096;  // packed, in sequences of `length`
  std::int64_t length = 128;
  int repeats = 5;
  bool profile = false;  // also a table of where the step's time goes, beside what its work needs at least
  bool only_tensorized = false;  // without the dense twin, which takes most of the time
  std::string device = "auto";   // as find_processor() takes it
  OperandKind operands = OperandKind::as_they_are;
  bool graphs = true;  // on a GPU: replay recorded steps
};

// Times whole optimizer steps of a model and of its dense twin in turn and what the machine can do at best,
// all in one run: medians and ratios, as text. On the CPU also one encoder layer by itself.
std::string benchmark_step(const StepBenchmarkOptions& options);

}  // namespace comera
