#pragma once

#include "cli/training/finetune_task.h"
#include "distributed/communicator.h"

namespace comera::cli {

// Prints what a run of `comera finetune` would learn, and its memory and time, measured here; writes nothing.
// UsageError in a job of several processes.
void plan_finetuning(const FinetuneOptions& options, const Communicator& communicator);

}  // namespace comera::cli
