// What a training run does about steps whose loss or gradient is not finite. The device has changed nothing
// then.
#include <fmt/format.h>

#include <cmath>

#include "recipes/run/training_run.h"

namespace comera {

namespace {

// A model's number of largest magnitude, which is infinite for NaN too. Where a forward pass overflows, it is
// often to blame.
struct LargestParameter {
  double magnitude = 0;
  std::string name;
};

LargestParameter largest_parameter(const ParameterStore& store) {
  LargestParameter largest;
  for (const ParameterId id : store.layout())
    for (const double value : read_tensor(store.value(id), store.allocator())) {
      const double magnitude = std::isfinite(value) ? std::abs(value) : HUGE_VAL;
      if (magnitude > largest.magnitude) largest = {magnitude, store.info(id).name};
    }
  return largest;
}

std::string first_nonfinite(StepEngine& engine, const LargestParameter& largest) {
  const StepResults& results = engine.results();
  if (!std::isfinite(results.loss_sum) || results.first_nonfinite < 0)
    return fmt::format("the loss (the largest parameter is {:.3g}, in {})", largest.magnitude, largest.name);
  return engine.optimizer().first_nonfinite(results) + "'s gradient";
}

// Where to go on from instead of a model that holds numbers that are not finite.
std::string good_checkpoint(std::int64_t step, std::int64_t saved_step, const std::string& saved) {
  if (saved_step < 0)
    return "and no checkpoint has been saved before: begin again with a lower learning rate";
  if (saved_step == step)
    return fmt::format(
        "and so it is saved in {}: remove that file and go on from the one before it with a "
        "lower learning rate and --resume auto",
        saved);
  return fmt::format(
      "the last good checkpoint is {}: go on from it with a lower learning rate and --resume auto", saved);
}

}  // namespace

// Where the row is full, the run stops before this step, which is done again when the run is resumed with
// other settings.
void TrainingRun::skip_step(const data::LoaderPosition& before) {
  const LargestParameter largest = largest_parameter(engine_->model().parameters());
  if (!std::isfinite(largest.magnitude)) refuse_nonfinite(largest.name);
  const std::string first = first_nonfinite(*engine_, largest);
  if (state_.skipped_in_a_row + 1 >= recipe_.optim.max_consecutive_skips)
    stop_on_nonfinite(before, state_.skipped_in_a_row == 0 ? first : state_.first_nonfinite);
  if (state_.skipped_in_a_row == 0) state_.first_nonfinite = first;
  ++state_.skipped_in_a_row;
  ++state_.skipped;
  const std::int64_t step = state_.step + 1;
  JsonObject line, skipped;
  skipped.add("first", first).add("in_a_row", state_.skipped_in_a_row).add("total", state_.skipped);
  write_metrics(step, line.add("skipped", skipped));
  progress_->print(
      fmt::format("warning: step {} was not finite, first in {}; it is skipped and changes nothing: {} in a "
                  "row, {} in all",
                  step, first, state_.skipped_in_a_row, state_.skipped));
}

std::string TrainingRun::skipped_note() const {
  return state_.skipped == 0 ? "" : fmt::format(", {} skipped", state_.skipped);
}

void TrainingRun::stop_on_nonfinite(const data::LoaderPosition& before, const std::string& first) {
  const std::int64_t end = state_.step + 1, begin = end - state_.skipped_in_a_row;
  const std::string what =
      begin == end
          ? fmt::format("step {} was not finite, first in {}; the model before that step", end, first)
          : fmt::format("steps {} to {} were not finite, first in {}; the model, which they did not change,",
                        begin, end, first);
  phase_->loader->seek(before);  // the checkpoint stands before the last of them
  if (saved_step_ != state_.step) save();
  throw_error(fmt::format(
      "{} is saved in {}: go on with a lower learning rate or optim.clip_norm and --resume auto, and if that "
      "fails too, remove the checkpoints from step {} on first, because the model had gone wrong earlier",
      what, saved_path_.string(), begin - 1));
}

// No later step can help a model that is broken itself, and it takes no good checkpoint's place.
void TrainingRun::refuse_nonfinite(const std::string& parameter) {
  const std::filesystem::path aside = directory_->nonfinite();
  save_checkpoint_as(aside);
  throw_error(fmt::format(
      "step {} was not finite, for {} already holds numbers that are not; the model is kept as {}, {}",
      state_.step + 1, parameter, aside.string(),
      good_checkpoint(state_.step, saved_step_, saved_path_.string())));
}

}  // namespace comera
