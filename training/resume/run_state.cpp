#include "training/resume/run_state.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/check.h"

namespace comera {

Attributes RunState::attributes() const {
  Attributes saved = {{"step", step},
                      {"phase", phase},
                      {"phase_step", phase_step},
                      {"tokens", units},
                      {"window_loss", window_loss},
                      {"window_targets", window_targets},
                      {"best_score", best_score},
                      {"best_step", best_step},
                      {"evaluated_step", evaluated_step},
                      {"logged_step", logged.step},
                      {"logged_lines", logged.lines},
                      {"skipped_steps", skipped},
                      {"skipped_in_a_row", skipped_in_a_row},
                      {"first_nonfinite", first_nonfinite}};
  if (not_better > 0) saved["not_better"] = not_better;
  // The clock must not make two checkpoints of the same steps differ.
  if (seconds > 0) {
    saved["seconds"] = seconds;
    saved["phase_seconds"] = phase_seconds;
  }
  return saved;
}

RunState RunState::load(const CheckpointReader& reader) {
  const char* at = "/trainer";
  const Attributes saved = reader.attributes(at);
  RunState state;
  state.step = reader.integer(at, "step");
  state.phase = reader.integer(at, "phase");
  state.phase_step = reader.integer(at, "phase_step");
  state.units = reader.integer(at, "tokens");
  state.window_loss = reader.number(at, "window_loss");
  state.window_targets = reader.number(at, "window_targets");
  // A sealed file may contain any values; their mean is used as a line of metrics.
  const double mean = state.window_loss / std::max(state.window_targets, 1.0);
  COMERA_CHECK(std::isfinite(mean) && std::isfinite(state.window_loss) && state.window_targets >= 0,
               "{}: a loss of {} over {} targets is impossible; use another checkpoint",
               reader.path().string(), state.window_loss, state.window_targets);
  state.evaluated_step = state.step;
  // Absent in files of versions that kept no best model.
  if (saved.contains("evaluated_step")) {
    state.best_score = reader.number(at, "best_score");
    state.best_step = reader.integer(at, "best_step");
    state.evaluated_step = reader.integer(at, "evaluated_step");
  }
  // Absent after a better one, and in files of versions that did not count them.
  if (saved.contains("not_better")) state.not_better = reader.integer(at, "not_better");
  // Absent in files of versions that stopped at the first such step.
  if (saved.contains("skipped_steps")) {
    state.skipped = reader.integer(at, "skipped_steps");
    state.skipped_in_a_row = reader.integer(at, "skipped_in_a_row");
    state.first_nonfinite = reader.text(at, "first_nonfinite");
  }
  if (saved.contains("seconds")) {
    state.seconds = reader.number(at, "seconds");
    state.phase_seconds = reader.number(at, "phase_seconds");
  }
  // Absent in files of versions that did not track their metrics.
  if (saved.contains("logged_step")) state.logged.step = reader.integer(at, "logged_step");
  if (saved.contains("logged_lines")) state.logged.lines = reader.integer(at, "logged_lines");
  return state;
}

}  // namespace comera
