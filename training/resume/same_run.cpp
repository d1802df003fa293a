#include "training/resume/same_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "recipes/changes.h"
#include "training/resume/checkpoint_recipe.h"

namespace comera {

namespace {

std::vector<std::pair<std::string, std::optional<double>>> weights_of(const Recipe& recipe) {
  std::vector<std::pair<std::string, std::optional<double>>> weights;
  for (const DataSource& source : recipe.data.sources) weights.emplace_back(source.name(), source.weight);
  return weights;
}

// Keys that decide the shapes of parameters, so that no other value can go on.
void require_same_shapes(const std::string& file, const Recipe& before, const Recipe& now) {
  constexpr std::array<std::string_view, 9> keys = {
      "model.layers",        "model.hidden",           "model.ffn",
      "model.max_positions", "model.relative_buckets", "model.types",
      "model.head",          "model.embedding_size",   "tensorized.enabled"};
  for (const RecipeChange& change : recipe_changes(before, now))
    if (std::ranges::count(keys, change.key) > 0 && !change.from.empty() && !change.to.empty())
      throw UsageError(
          fmt::format("{} is of another model: {} is {} in the checkpoint, {} here; leave it as it was, or "
                      "start a new run",
                      file, change.key, change.from, change.to));
}

}  // namespace

void require_same_run(const CheckpointReader& reader, const Recipe& before, const RunSetup& setup) {
  const std::string file = reader.path().string();
  if (!before.dlrm && !setup.recipe.dlrm) require_same_shapes(file, before, setup.recipe);
  // The position in the data is one in the order that follows from them.
  if (const auto weights = weights_of(before), now = weights_of(setup.recipe); weights != now)
    throw UsageError(
        fmt::format("{} was trained with other sources or weights in [[data.source]]; resume with those, or "
                    "start a new run from this checkpoint (--from)",
                    file));
  if (before.data.order != setup.recipe.data.order && reader.integer("/trainer", "step") > 0)
    throw UsageError(
        fmt::format("{} was trained with another data.order; resume with that, or start a new run from this "
                    "checkpoint (--from)",
                    file));
  const auto replaced_words = [](const Recipe& recipe) {
    return recipe.distillation ? recipe.distillation->replaced_words : 0;
  };
  if (replaced_words(before) != replaced_words(setup.recipe))
    throw UsageError(fmt::format(
        "{} was trained with distillation.replaced_words = {}; resume with that, or start a new run "
        "from this checkpoint (--from)",
        file, replaced_words(before)));
  COMERA_CHECK(reader.text("/data", "fingerprint") == setup.task->fingerprint(),
               "{} was trained on other data than {} holds now: resume with the same data", file,
               setup.task->source());
  const Attributes data = reader.attributes("/data");
  const std::string taught = data.contains("teacher") ? reader.text("/data", "teacher") : "";
  if (taught != (setup.teacher ? setup.teacher->content : ""))
    throw UsageError(fmt::format(
        "{} has learned from {}; resume with distillation.teacher as it was, or start a new run from this "
        "checkpoint (--from)",
        file, taught.empty() ? "no teacher" : "another teacher"));
  // The best model so far was chosen by the held-out data, as the next one will be.
  const std::string held_out = setup.task->held_out_fingerprint();
  if (data.contains("held_out") && !held_out.empty() && reader.text("/data", "held_out") != held_out &&
      !reader.text("/data", "held_out").empty())
    throw UsageError(
        fmt::format("{} chose its best model on other held-out data; resume with those, or start a new run "
                    "from this checkpoint (--from)",
                    file));
  if (const ModelSection& was = before.model, &is = setup.recipe.model;
      was.head == HeadKind::regression &&
      (was.score_of(0) != is.score_of(0) || was.score_of(1) != is.score_of(1)))
    throw UsageError(
        fmt::format("{} was trained with another model.score_mean or model.score_std; leave them out, "
                    "or start a new run from this checkpoint (--from)",
                    file));
  const std::int64_t seed = reader.integer("/rng", "seed");
  COMERA_CHECK(seed == setup.recipe.run.seed, "{} was trained with run.seed = {}, but the recipe has {}",
               file, seed, setup.recipe.run.seed);
  if (const auto& was = before.generator, &is = setup.recipe.generator; was && is && was->width != is->width)
    throw UsageError(fmt::format(
        "{}: generator.width is {} in the checkpoint, {} here; leave it as it was, or start a new "
        "run from this checkpoint (--from)",
        file, was->width, is->width));
  if (before.lte != setup.recipe.lte)
    throw UsageError(fmt::format(
        "{} was trained with another [lte], which its adapters depend on; resume with that", file));
  require_same_encoder(setup.recipe, reader);
  if (setup.recipe.run.max_hours && !before.run.max_hours && reader.integer("/trainer", "step") > 0)
    throw UsageError(
        fmt::format("{} was trained without run.max_hours, so its hours so far are unknown; remove "
                    "run.max_hours, or start a new run from this checkpoint (--from)",
                    file));
  if ((before.optim.average_decay > 0) != (setup.recipe.optim.average_decay > 0))
    throw UsageError(
        fmt::format("{} was trained {} optim.average_decay; resume {} it, or start a new run from this "
                    "checkpoint (--from)",
                    file, before.optim.average_decay > 0 ? "with" : "without",
                    before.optim.average_decay > 0 ? "with" : "without"));
  if (before.optim.kind != setup.recipe.optim.kind)
    throw UsageError(
        fmt::format("{} was trained with another optim.name, and its optimizer state belongs to that; resume "
                    "with it, or start a new run from this checkpoint (run.initial_checkpoint, --from)",
                    file));
}

void require_same_stage(const PhaseSection& begun, const PhaseSection& now, std::int64_t phase,
                        const std::string& file) {
  const AdaptationSection was = adaptation_of(begun), is = adaptation_of(now);
  const bool same_target = was.target_ratio == is.target_ratio && was.target_of == is.target_of &&
                           was.target_size == is.target_size;
  if (begun.objective == now.objective && (now.objective != PhaseObjective::compress || same_target)) return;
  throw UsageError(
      fmt::format("{} is within phase {}, which was started with another {}; finish the phase with that, or "
                  "start a new run from this checkpoint (run.initial_checkpoint, --from)",
                  file, phase, begun.objective == now.objective ? "target size" : "objective"));
}

void require_same_phase(const RunParts& run, const Recipe& before, const std::string& file) {
  const RunState& state = run.state;
  COMERA_CHECK(state.phase < run.plan.phases(), "{} is in phase {}, but the recipe has {} phases", file,
               state.phase + 1, run.plan.phases());
  const std::int64_t steps = run.plan.steps(state.phase);
  COMERA_CHECK(state.phase_step <= steps,
               "{} has done {} steps of phase {}, but the recipe now has only {}: give at least as many",
               file, state.phase_step, state.phase, steps);
  // A phase that has begun keeps its objective and its target.
  if (state.phase_step > 0 && state.phase_step < steps)
    require_same_stage(before.phases[state.phase], run.setup.recipe.phases[state.phase], state.phase, file);
  const std::int64_t stop_after = run.setup.options.stop_after;
  if (stop_after > 0 && state.step >= stop_after)
    throw UsageError(fmt::format("{} has already done {} steps; raise --stop-after above {}, or omit it",
                                 file, state.step, stop_after));
}

void seek_same_samples(data::BatchStream& loader, const DataPlace& place, const std::string& file,
                       const std::string& source, std::int64_t phase, std::int64_t length) {
  COMERA_CHECK(loader.samples_per_epoch() == place.samples_per_epoch,
               "{} was made with {} samples, but {} now gives {} of length {}: resume with the same data and "
               "phase.{}.length",
               file, place.samples_per_epoch, source, loader.samples_per_epoch(), length, phase);
  try {
    loader.seek(place.position);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", file, error.what()));
  }
}

}  // namespace comera
