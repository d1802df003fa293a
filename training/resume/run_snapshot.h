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

// What a checkpoint of a run is made of. For one call: the parts are the run's.
struct RunParts {
  RunSetup& setup;
  StepEngine& engine;
  RunState& state;
  RankStages& ranks;
  PhasePlan& plan;
};

// Where a loader stands, and of how many samples that is said.
struct DataPlace {
  data::LoaderPosition position;
  std::int64_t samples_per_epoch = 0;
};

// By the first process of a job, which alone has a file to write.
void write_snapshot(CheckpointWriter& writer, const RunParts& run, const DataPlace& data);

// Takes all of it from a checkpoint of the same run, to go on to the bit. Error or UsageError, with what to
// do, where the recipe or the data are not those that the checkpoint was made with. `log_line` is told what
// differs otherwise.
DataPlace read_snapshot(const std::filesystem::path& checkpoint, const RunParts& run,
                        const std::function<void(const std::string&)>& log_line);

}  // namespace comera
