#pragma once

#include <functional>
#include <string>

#include "data/batching/loader.h"
#include "training/ranks/rank_stages.h"
#include "training/resume/run_state.h"
#include "training/run/phase_plan.h"
#include "training/run/run_setup.h"
#include "training/step/step_engine.h"

namespace comera {

// References to the parts of a run that a checkpoint contains; for a single call.
struct RunParts {
  RunSetup& setup;
  StepEngine& engine;
  RunState& state;
  RankStages& ranks;
  PhasePlan& plan;
};

// A loader's position, and the number of samples that it refers to.
struct DataPlace {
  data::LoaderPosition position;
  std::int64_t samples_per_epoch = 0;
};

// Called by process 0 of a job, the only one with a file to write.
void write_snapshot(CheckpointWriter& writer, const RunParts& run, const DataPlace& data);

// Restores everything from a checkpoint of the same run, for a bit-exact resume. Error or UsageError, with a
// remedy, if the recipe or the data differ from the checkpoint's. Other differences are reported to
// `log_line`.
DataPlace read_snapshot(const std::filesystem::path& checkpoint, const RunParts& run,
                        const std::function<void(const std::string&)>& log_line);

}  // namespace comera
