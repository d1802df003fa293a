#pragma once

#include <cstdint>
#include <string>

#include "checkpoints/checkpoint_file.h"
#include "training/logging/metrics.h"

namespace comera {

// Training progress. A checkpoint contains all of it, as attributes of /trainer.
struct RunState {
  std::int64_t step = 0;        // steps done over all phases
  std::int64_t phase = 0;       // index of the current phase
  std::int64_t phase_step = 0;  // steps done in it
  std::int64_t units = 0;       // tokens or examples processed
  double seconds = 0;           // training time of a run with run.max_hours,
  double phase_seconds = 0;     // and in the current phase
  double window_loss = 0;       // loss and targets since the last line of metrics
  double window_targets = 0;
  double best_score = 0;            // of the evaluations so far
  std::int64_t best_step = 0;       // 0: none yet
  std::int64_t not_better = 0;      // evaluations since then
  std::int64_t evaluated_step = 0;  // last step with a completed evaluation; 0: none yet
  MetricsPlace logged = {};         // the last line of metrics
  std::int64_t skipped = 0;         // non-finite steps, which changed nothing
  std::int64_t skipped_in_a_row = 0;
  std::string first_nonfinite = {};  // the tensor that began this row

  // Adds the sums of a finite step.
  void add_loss(double loss, double targets) {
    window_loss += loss;
    window_targets += targets;
    skipped_in_a_row = 0;
    first_nonfinite.clear();
  }

  // Attributes of /trainer.
  Attributes attributes() const;
  // Values that older versions did not save get the values that they had there.
  static RunState load(const CheckpointReader& reader);
};

}  // namespace comera
