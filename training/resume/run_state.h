#pragma once

#include <cstdint>
#include <string>

#include "checkpoints/checkpoint_file.h"
#include "training/logging/metrics.h"

namespace comera {

// Where a run stands. All of it is in a checkpoint, as attributes of /trainer.
struct RunState {
  std::int64_t step = 0;        // steps done over all phases
  std::int64_t phase = 0;       // index of the current phase
  std::int64_t phase_step = 0;  // steps done in it
  std::int64_t units = 0;       // tokens or examples, seen
  double seconds = 0;           // of a run with run.max_hours: trained,
  double phase_seconds = 0;     // and in the current phase
  double window_loss = 0;       // loss and targets since the last line of metrics
  double window_targets = 0;
  double best_score = 0;            // of the evaluations so far
  std::int64_t best_step = 0;       // 0: none yet
  std::int64_t evaluated_step = 0;  // the last one whose evaluation is done; 0: none yet
  MetricsPlace logged = {};         // the last line of metrics
  std::int64_t skipped = 0;         // steps that were not finite and changed nothing
  std::int64_t skipped_in_a_row = 0;
  std::string first_nonfinite = {};  // the tensor with which that row began

  // A step with these sums was finite.
  void add_loss(double loss, double targets) {
    window_loss += loss;
    window_targets += targets;
    skipped_in_a_row = 0;
    first_nonfinite.clear();
  }

  // Attributes of /trainer.
  Attributes attributes() const;
  // What older versions did not save has the value that it had there.
  static RunState load(const CheckpointReader& reader);
};

}  // namespace comera
