// What a run saves, and how it goes on from it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "checkpoints/float8_scales.h"
#include "checkpoints/model_state.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "recipes/changes.h"
#include "storage/durable_file.h"
#include "training/checkpoint_recipe.h"
#include "training/lost_checkpoints.h"
#include "training/training_run.h"

namespace comera {

void TrainingRun::keep_best() const {
  on_first(*host_, [&] {
    // Checkpoints never change, so that another name for the same file is as good as a copy, and takes no
    // room.
    storage::link_file_durably(saved_path_, directory_->best());
    return std::string();
  });
}

void TrainingRun::save() {
  refuse_to_save_nonfinite();
  try {
    write_checkpoint();
  } catch (const Error& error) {
    throw_error(
        fmt::format("{}; {}; mend that and go on with --resume auto", error.what(), last_checkpoint()));
  }
}

// That so much time has passed since the last one that no more may be lost.
bool TrainingRun::checkpoint_is_due() const {
  const double minutes = recipe_.run.checkpoint_minutes;
  return minutes > 0 &&
         std::chrono::steady_clock::now() - saved_at_ >= std::chrono::duration<double>(60 * minutes);
}

std::string TrainingRun::last_checkpoint() const {
  return saved_step_ < 0 ? "no checkpoint has been saved yet"
                         : fmt::format("the last good checkpoint is {}", saved_path_.string());
}

void TrainingRun::write_checkpoint() {
  check_same_model();
  saved_path_ = on_first(*host_, [&] {
    return checkpoints_->save(state_.step, [this](CheckpointWriter& writer) { write_state(writer); })
        .string();
  });
  saved_step_ = state_.step;
  saved_at_ = std::chrono::steady_clock::now();
  on_first(*host_, [&] {
    sign_saved_checkpoints(*directory_);
    return std::string();
  });
  host_->set_advice(last_checkpoint() + ": go on with --resume auto");
}

void TrainingRun::save_checkpoint_as(const std::filesystem::path& file) {
  on_first(*host_, [&] {
    CheckpointWriter writer(file);
    write_state(writer);
    writer.commit();
    return std::string();
  });
}

void TrainingRun::write_state(CheckpointWriter& writer) const {
  const data::LoaderPosition position = phase_->loader->position();
  const ParameterStore& store = engine_->model().parameters();
  save_parameters(writer, store);
  save_optimizer(writer, store, engine_->optimizer().state());
  writer.attributes("/recipe", {{"toml", to_toml(recipe_)}});
  writer.attributes("/trainer", {{"step", state_.step},
                                 {"phase", state_.phase},
                                 {"phase_step", state_.phase_step},
                                 {"tokens", state_.tokens},
                                 {"window_loss", state_.window_loss},
                                 {"window_targets", state_.window_targets},
                                 {"best_score", state_.best_score},
                                 {"best_step", state_.best_step},
                                 {"evaluated_step", state_.evaluated_step},
                                 {"logged_step", state_.logged.step},
                                 {"logged_lines", state_.logged.lines},
                                 {"skipped_steps", state_.skipped},
                                 {"skipped_in_a_row", state_.skipped_in_a_row},
                                 {"first_nonfinite", state_.first_nonfinite},
                                 {"steps_of_phase", steps_of_phase_}});
  writer.attributes("/rng", {{"seed", recipe_.run.seed}});
  writer.attributes("/environment",
                    {{"instruction_set", computes_with(processor_, recipe_.precision.activations())}});
  writer.attributes("/data", {{"epoch", position.epoch},
                              {"cursor", position.cursor},
                              {"taken", position.taken},
                              {"pack", position.pack},
                              {"seed", position.seed},
                              {"samples_per_epoch", phase_->loader->samples_per_epoch()},
                              {"vocabulary", std::int64_t{tokenizer_.vocabulary()}},
                              {"tokenizer_hash", tokenizer_.hash()},
                              {"fingerprint", task_->fingerprint()}});
  save_ranks(writer);
  if (const Float8State* float8 = engine_->model().float8()) save_float8(writer, *float8);
}

void TrainingRun::resume_from(const FoundCheckpoint& found) {
  const CheckpointReader reader(found.path);
  const std::string file = found.path.string();
  COMERA_CHECK(reader.text("/data", "fingerprint") == task_->fingerprint(),
               "{} was trained on other data than {} now holds: resume with the same data", file,
               task_->source());
  COMERA_CHECK(reader.integer("/rng", "seed") == recipe_.run.seed,
               "{} was trained with run.seed = {}, but the recipe has {}", file,
               reader.integer("/rng", "seed"), recipe_.run.seed);
  require_same_encoder(recipe_, reader);
  const ParameterStore& store = engine_->model().parameters();
  load_parameters(reader, store);
  load_optimizer(reader, store, engine_->optimizer().state());
  load_ranks(reader);
  if (Float8State* float8 = engine_->model().float8()) load_float8(reader, *float8);
  const Attributes trainer = reader.attributes("/trainer");
  state_ = {.step = reader.integer("/trainer", "step"),
            .phase = reader.integer("/trainer", "phase"),
            .phase_step = reader.integer("/trainer", "phase_step"),
            .tokens = reader.integer("/trainer", "tokens"),
            .window_loss = reader.number("/trainer", "window_loss"),
            .window_targets = reader.number("/trainer", "window_targets"),
            .evaluated_step = reader.integer("/trainer", "step")};
  // Absent in files of versions that kept no best model.
  if (trainer.contains("evaluated_step")) {
    state_.best_score = reader.number("/trainer", "best_score");
    state_.best_step = reader.integer("/trainer", "best_step");
    state_.evaluated_step = reader.integer("/trainer", "evaluated_step");
  }
  // Absent in files of versions that stopped at the first such step.
  if (trainer.contains("skipped_steps")) {
    state_.skipped = reader.integer("/trainer", "skipped_steps");
    state_.skipped_in_a_row = reader.integer("/trainer", "skipped_in_a_row");
    state_.first_nonfinite = reader.text("/trainer", "first_nonfinite");
  }
  // Absent in files of versions that did not look after their metrics.
  if (trainer.contains("logged_step")) state_.logged.step = reader.integer("/trainer", "logged_step");
  if (trainer.contains("logged_lines")) state_.logged.lines = reader.integer("/trainer", "logged_lines");
  COMERA_CHECK(state_.phase < static_cast<std::int64_t>(recipe_.phases.size()),
               "{} stands in phase {}, but the recipe has {} phases", file, state_.phase + 1,
               recipe_.phases.size());
  position_ = data::LoaderPosition{.epoch = reader.integer("/data", "epoch"),
                                   .cursor = reader.integer("/data", "cursor"),
                                   .taken = reader.integer("/data", "taken"),
                                   .pack = reader.integer("/data", "pack"),
                                   .seed = reader.integer("/data", "seed")};
  saved_samples_ = reader.integer("/data", "samples_per_epoch");
  // Counted in epochs, a phase has as many steps as it was begun with, unless the recipe asks for others.
  const std::vector<std::int64_t> begun = reader.list("/trainer", "steps_of_phase");
  const Recipe before = checkpoint_recipe(reader);
  // A run is begun once, and --from need not be said again.
  recipe_.run.initial_checkpoint = before.run.initial_checkpoint;
  for (std::size_t phase = 0; phase < std::min(begun.size(), steps_of_phase_.size()); ++phase)
    if (recipe_.phases[phase].epochs && recipe_.phases[phase].epochs == before.phases[phase].epochs)
      steps_of_phase_[phase] = begun[phase];
  total_steps_ = std::accumulate(steps_of_phase_.begin(), steps_of_phase_.end(), std::int64_t{0});
  COMERA_CHECK(state_.phase_step <= steps_of_phase_[state_.phase],
               "{} has done {} steps of phase {}, but the recipe now has only {}: give it at least as many",
               file, state_.phase_step, state_.phase, steps_of_phase_[state_.phase]);
  refuse_another_stage(before, file);
  if (before.optim.name != recipe_.optim.name)
    throw UsageError(fmt::format(
        "{} was trained with another optim.name, to which its moments belong; go on with that, or begin a "
        "new run from this checkpoint (run.initial_checkpoint, --from)",
        file));
  if (options_.stop_after > 0 && state_.step >= options_.stop_after)
    throw UsageError(fmt::format("{} has done {} steps already; give a later --stop-after than {}, or none",
                                 file, state_.step, options_.stop_after));
  const std::string set = reader.text("/environment", "instruction_set");
  if (set != computes_with(processor_, recipe_.precision.activations()))
    say_to(options_.output,
           "{} was computed with {}, this run computes with {}: it goes on, but not to the same bits\n", file,
           set, computes_with(processor_, recipe_.precision.activations()));
  for (const RefusedCheckpoint& refused : found.refused)
    say_to(options_.output, "not used: {}; it is kept as {}\n", refused.reason,
           checkpoints_->set_aside(refused.path).filename().string());
  say_to(options_.output, "going on from {}: step {} of {}\n", file, state_.step, total_steps_);
  // Of keys that decide about results. That the tokenizer is the same one has been seen, wherever it lies.
  for (const RecipeChange& change : recipe_changes(before, recipe_))
    if (!change.key.starts_with("run.") && !change.key.starts_with("distributed.") &&
        change.key != "data.tokenizer")
      say_to(options_.output, "changed since the checkpoint: {}\n", to_string(change));
  saved_step_ = state_.step;
  saved_path_ = found.path;
  host_->set_advice(last_checkpoint() + ": go on with --resume auto");
  // In case it was stopped between saving and keeping the best.
  if (state_.best_step == state_.step && state_.step > 0) keep_best();
}

}  // namespace comera
