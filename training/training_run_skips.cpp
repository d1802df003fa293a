// What a training run does about steps whose loss or gradient is not finite. The device has changed nothing
// then.
#include <fmt/format.h>

#include <cmath>

#include "kernels/core/finite.h"
#include "training/training_run.h"

namespace comera {

namespace {

// The model's number of largest magnitude, all being finite. Where a forward pass overflows, it is often to
// blame.
struct LargestParameter {
  double magnitude = 0;
  std::string name;
};

LargestParameter largest_parameter(const ParameterStore& store) {
  LargestParameter largest;
  for (const ParameterId id : store.layout())
    for (const double value : read_tensor(store.value(id), store.allocator()))
      if (std::abs(value) > largest.magnitude) largest = {std::abs(value), store.info(id).name};
  return largest;
}

// "encoder.0.ffn.up.core.1", or "the moment v of ..."; empty if all numbers of the model and its optimizer
// are finite.
std::string nonfinite_numbers(const StepEngine& engine, const ParameterStore& store) {
  if (const auto id = find_nonfinite(store, store.values())) return store.info(*id).name;
  for (const auto& [name, flat] : engine.optimizer().state())
    if (const auto id = find_nonfinite(store, flat))
      return fmt::format("the moment {} of {}", name, store.info(*id).name);
  return "";
}

std::string first_nonfinite(StepEngine& engine, const LargestParameter& largest) {
  const StepResults& results = engine.results();
  if (!std::isfinite(results.loss_sum) || results.first_nonfinite < 0)
    return fmt::format("the loss (the largest parameter is {:.3g}, in {})", largest.magnitude, largest.name);
  return engine.optimizer().first_nonfinite(results) + "'s gradient";
}

// Where to go on from instead of a model that holds numbers that are not finite.
std::string good_checkpoint(std::int64_t saved_step, const std::string& saved, const std::string& rate) {
  if (saved_step < 0)
    return fmt::format("and no checkpoint has been saved before: begin again with a lower {}", rate);
  return fmt::format("the last good checkpoint is {}: go on from it with a lower {} and --resume auto", saved,
                     rate);
}

}  // namespace

// Where the row is full, the run stops before this step, which is done again when the run is resumed with
// other settings.
void TrainingRun::skip_step(const data::LoaderPosition& before) {
  const ParameterStore& store = engine_->model().parameters();
  if (const auto broken = find_nonfinite(store, store.values()))
    refuse_nonfinite(fmt::format("step {} was not finite, for {} already holds numbers that are not",
                                 state_.step + 1, store.info(*broken).name));
  const std::string first = first_nonfinite(*engine_, largest_parameter(store));
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
      "{} is saved in {}: go on with a lower {} or optim.clip_norm and --resume auto, and if that fails too, "
      "remove the checkpoints from step {} on first, because the model had gone wrong earlier",
      what, saved_path_.string(), learning_rate_key(), begin - 1));
}

// What is saved is finite, whatever the steps before found in their losses and gradients: an update can
// overflow by itself, and a number that no batch has read since is seen by no step.
void TrainingRun::refuse_to_save_nonfinite() {
  const std::string broken =
      on_first(*host_, [&] { return nonfinite_numbers(*engine_, engine_->model().parameters()); });
  if (!broken.empty())
    refuse_nonfinite(fmt::format("the updates up to step {} have left {} with numbers that are not finite",
                                 state_.step, broken));
}

// No later step can help a model that is broken itself, and it takes no good checkpoint's place.
void TrainingRun::refuse_nonfinite(const std::string& reason) {
  const std::filesystem::path aside = directory_->nonfinite();
  save_checkpoint_as(aside);
  throw_error(fmt::format("{}; the model is kept as {}, {}", reason, aside.string(),
                          good_checkpoint(saved_step_, saved_path_.string(), learning_rate_key())));
}

// Whether the model is as it is because its steps were too long: then what to do, as a part of a sentence.
std::string TrainingRun::divergence() const {
  constexpr double longest_step = 0.5, largest = 1000;  // gates begin near 1, other parameters below it
  const LargestParameter parameter = largest_parameter(engine_->model().parameters());
  const double gates = recipe_.phases[state_.phase].learning_rate.gates;
  if (gates < longest_step && parameter.magnitude < largest) return "";
  return fmt::format(
      "the model has diverged (a step moves a gate by up to {}, and the largest parameter is "
      "{:.3g}, in {}): give a lower {}",
      gates, parameter.magnitude, parameter.name, learning_rate_key());
}

std::string TrainingRun::learning_rate_key() const {
  const LearningRates& rates = recipe_.phases[state_.phase].learning_rate;
  return fmt::format("phase.{}.learning_rate (now {})", state_.phase, rates.text());
}

}  // namespace comera
