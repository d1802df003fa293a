#pragma once

#include <string>

#include "checkpoints/checkpoint_file.h"
#include "kernels/core/tensors/parameter.h"
#include "measurements/step_benchmark.h"

namespace comera {

// Measures the effect of a checkpoint's adapted ranks on this machine. Times whole optimizer steps, in turn,
// of: the model with its initial ranks ("before", random weights; the ranks at the run's start or, without
// history in the file, those of the recipe's kinds); the same shapes with the checkpoint's live slices in
// front and zeros elsewhere ("masked": the effect of pruning alone, without compaction); the live ranks
// ("compacted"), with the checkpoint's weights; and, unless options.only_tensorized, the dense baseline.
// Returns times, memory, parameters and their ratios to the compacted model's, as text. options.config and
// options.operands are replaced by the checkpoint's; the CPU computes in fp32. Throws Error if the checkpoint
// is dense.
std::string benchmark_ranks(const CheckpointReader& checkpoint, const StepBenchmarkOptions& options);

// Copies a compacted model's values to the front of each axis of a larger one's cores and gates, with zeros
// after them: the larger one then computes the same.
void write_in_front(const ParameterStore& small, const ParameterStore& large);

}  // namespace comera
