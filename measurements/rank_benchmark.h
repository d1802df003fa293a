#pragma once

#include <string>

#include "checkpoints/checkpoint_file.h"
#include "kernels/core/tensors/parameter.h"
#include "measurements/step_benchmark.h"

namespace comera {

// What the adapted ranks of a checkpoint are worth here: times whole optimizer steps, in turn, of the model
// as it was before ("before", random weights: the ranks at the run's start, or, if the file has no history of
// them, of the recipe's kinds); of the same shapes with the checkpoint's live slices in front and zeros
// elsewhere ("masked": what killing alone, without compaction, would save); of the live ranks ("compacted"),
// with the checkpoint's weights; and, unless options.only_tensorized, of the dense baseline. Times, memory,
// parameters and how many times the compacted model's they are, as text. options.config and options.operands
// are the checkpoint's, whatever was given; the CPU computes in fp32. Throws Error if the checkpoint is
// dense.
std::string benchmark_ranks(const CheckpointReader& checkpoint, const StepBenchmarkOptions& options);

// A compacted model's numbers in front of each axis of a larger one's cores and gates, zeros behind them: the
// larger one then computes the same.
void write_in_front(const ParameterStore& small, const ParameterStore& large);

}  // namespace comera
