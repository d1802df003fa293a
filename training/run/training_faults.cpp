// What a training run saves, and how it handles faults: non-finite steps, models with non-finite values, and
// encoders that have lost all attention.
#include <fmt/format.h>

#include <cmath>
#include <typeinfo>

#include <nlohmann/json.hpp>

#include "training/run/nonfinite.h"
#include "training/run/training_run.h"

namespace comera {

// Only finite models are saved, whatever losses and gradients the earlier steps had: an update alone can
// overflow, and no step notices a value that no batch has read since.
void TrainingRun::save() {
  const std::string broken = on_first(job_.host(), [this] { return nonfinite_numbers(*engine_); });
  if (!broken.empty())
    refuse_nonfinite(fmt::format("the updates up to step {} have left {} with values that are not finite",
                                 state_.step, broken));
  checkpoints_.save(state_.step, engine_->model().parameters(),
                    [this](CheckpointWriter& writer) { write(writer); });
}

void TrainingRun::write(CheckpointWriter& writer) {
  write_snapshot(writer, parts(), {phase_->loader->position(), phase_->loader->samples_per_epoch()});
}

void TrainingRun::save_aside(const std::filesystem::path& file) {
  checkpoints_.save_aside(file, [this](CheckpointWriter& writer) { write(writer); });
}

// If there are too many consecutive skipped steps, the run stops before this step, which is repeated when the
// run is resumed with other settings.
void TrainingRun::skip_step(const data::LoaderPosition& before) {
  const std::int64_t step = state_.step + 1;
  if (const std::string broken = nonfinite_parameter(engine_->model().parameters()); !broken.empty())
    refuse_nonfinite(
        fmt::format("step {} was not finite, because {} already holds values that are not", step, broken));
  const std::string first = first_nonfinite(*engine_);
  if (state_.skipped_in_a_row == 0) state_.first_nonfinite = first;
  if (state_.skipped_in_a_row + 1 >= setup_.recipe.optim.max_consecutive_skips) stop_on_nonfinite(before);
  ++state_.skipped_in_a_row;
  ++state_.skipped;
  const Json skipped = {{"first", first}, {"in_a_row", state_.skipped_in_a_row}, {"total", state_.skipped}};
  write_metrics(step, {{"skipped", skipped}});
  log_line(
      fmt::format("warning: step {} was not finite, first in {}, and was skipped: {} in a row, {} in all",
                  step, first, state_.skipped_in_a_row, state_.skipped));
}

void TrainingRun::stop_on_nonfinite(const data::LoaderPosition& before) {
  const std::int64_t end = state_.step + 1, begin = end - state_.skipped_in_a_row;
  const std::string first = state_.first_nonfinite;
  const std::string what =
      begin == end
          ? fmt::format("step {} was not finite, first in {}; the model before that step", end, first)
          : fmt::format("steps {} to {} were not finite, first in {}; the unchanged model", begin, end,
                        first);
  if (begin == end) state_.first_nonfinite.clear();  // the checkpoint is from before the step
  phase_->loader->seek(before);
  if (!checkpoints_.has(state_.step)) save();
  throw_error(fmt::format(
      "{} is saved in {}: continue with a lower {} or optim.clip_norm and --resume auto; if that fails too, "
      "first remove the checkpoints from step {} on, because the model had gone wrong earlier",
      what, checkpoints_.last().string(), rate_key(), begin - 1));
}

// No later step can repair a model with non-finite values, and it must not replace a good checkpoint.
void TrainingRun::refuse_nonfinite(const std::string& reason) {
  const std::filesystem::path aside = setup_.directory->nonfinite();
  save_aside(aside);
  const std::string instead =
      checkpoints_.any()
          ? fmt::format("{}: continue from it with a lower {} and --resume auto", checkpoints_.last_text(),
                        rate_key())
          : fmt::format("and no checkpoint was saved before: start again with a lower {}", rate_key());
  throw_error(fmt::format("{}; the model is kept as {}, {}", reason, aside.string(), instead));
}

// Rejects disconnected networks: a model needs a path from its input to its output.
void TrainingRun::refuse_collapsed(const std::string& what) {
  if (!ranks_.collapsed(engine_->model())) return;
  std::string kept;
  if (!checkpoints_.has(state_.step) && phase_ != nullptr) {
    const std::filesystem::path aside = setup_.directory->collapsed();
    save_aside(aside);
    kept = fmt::format(" ({} has it)", aside.string());
  }
  std::string advice = divergence(engine_->model().parameters(), section().learning_rate.gates, rate_key());
  if (advice.empty()) advice = ranks_.advice();
  const std::string then =
      checkpoints_.any() && !checkpoints_.has(state_.step)
          ? fmt::format("continue from {} with --resume auto", checkpoints_.last().string())
          : std::string("begin again");
  throw_error(fmt::format("{} {}{}; {} and {}", what, setup_.form->disconnected(), kept, advice, then));
}

// The loss of guessing every piece, class or click alike; 0 where there is none.
double TrainingRun::uniform_loss() const {
  const Recipe& recipe = setup_.recipe;
  if (recipe.dlrm) return std::log(2.0);
  if (recipe.distillation) return 0;  // distances from a teacher have no such loss
  switch (recipe.model.head) {
    case HeadKind::mlm:
      return std::log(static_cast<double>(setup_.tokenizer->vocabulary()));
    case HeadKind::replaced_tokens: {  // guessing knows how many tokens are masked
      double share = 1e-3;
      for (const PhaseSection& phase : recipe.phases)  // of any, as for a run that is resumed
        share = std::max(share, phase.largest_mask_probability(recipe.data.mask_probability));
      share = std::min(share, 0.5);
      return std::log(static_cast<double>(setup_.tokenizer->vocabulary())) -
             recipe.generator.value_or(GeneratorSection()).weight *
                 (share * std::log(share) + (1 - share) * std::log(1 - share));
    }
    case HeadKind::classification:
    case HeadKind::token_classification:
      return std::log(static_cast<double>(recipe.model.classes));
    case HeadKind::multi_label:
      return std::log(2.0);  // of each label
    case HeadKind::regression:
    case HeadKind::contrastive:  // depends on the documents of each micro-batch
      return 0;
    case HeadKind::question_answering:
      return std::log(static_cast<double>(recipe.phases[0].length));
  }
  return 0;
}

void TrainingRun::watch_divergence() {
  const StepResults& results = engine_->results();
  if (!(results.target_count > 0)) return;
  const auto found = watch_->add(results.loss_sum / results.target_count);
  if (!found) return;
  const std::string rates = fmt::format("{}{}", rate_key(),
                                        is_pretraining(setup_.recipe.model.head) && !setup_.recipe.dlrm
                                            ? "; comera pretrain --find-rate finds good rates"
                                            : "");
  const std::string loss = fmt::format("the training loss was {:.5g} over the last {} steps", watch_->mean(),
                                       DivergenceWatch::block_steps);
  if (*found == DivergenceWatch::Finding::absurd)
    throw_error(
        fmt::format("{}: the model has diverged, so the run stops at step {}, without a checkpoint of "
                    "it; start again with a lower {}",
                    loss, state_.step, rates));
  log_line(
      fmt::format("warning: {}, more than guessing costs ({:.4f}): the model learns nothing or has "
                  "diverged; if it stays so, stop and start again with a lower {}",
                  loss, uniform_loss(), rates));
}

// What goes wrong in a model that has diverged often has that as its cause.
void TrainingRun::fail_with_cause(const Error& error) const {
  const auto loss = watch_ ? watch_->now_high() : std::nullopt;
  if (!loss || typeid(error) != typeid(Error) ||
      std::string_view(error.what()).find("learning_rate") != std::string_view::npos)
    throw;
  throw_error(fmt::format(
      "{}; the training loss of the last step was {:.5g}, which is high: if the model has diverged, "
      "start again with a lower {}",
      error.what(), *loss, rate_key()));
}

// The best model of another size does not count for the target size.
void TrainingRun::set_best_aside() {
  const std::int64_t before = state_.phase - 1;
  const std::string kept = on_first(
      job_.host(), [&] { return std::string(setup_.directory->set_best_aside(before) ? "yes" : ""); });
  if (!kept.empty())
    log_line(
        fmt::format("the best model so far is kept as best-phase-{}.h5; until this phase has one of its own, "
                    "commands use the newest checkpoint",
                    before));
  state_.best_step = 0;
  state_.best_score = 0;
  state_.not_better = 0;
}

std::string TrainingRun::rate_key() const {
  return fmt::format("phase.{}.learning_rate (now {})", state_.phase, section().learning_rate.text());
}

}  // namespace comera
