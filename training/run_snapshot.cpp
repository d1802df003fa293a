#include "training/run_snapshot.h"

#include <fmt/format.h>

#include "checkpoints/float8_scales.h"
#include "checkpoints/model_state.h"
#include "kernels/backends/processors.h"
#include "kernels/core/version.h"
#include "recipes/changes.h"
#include "training/checkpoint_recipe.h"

namespace comera {

namespace {

std::string instruction_set(const RunSetup& setup) {
  return computes_with(*setup.processor, setup.recipe.precision.activations());
}

std::vector<std::pair<std::string, std::optional<double>>> weights_of(const Recipe& recipe) {
  std::vector<std::pair<std::string, std::optional<double>>> weights;
  for (const DataSource& source : recipe.data.sources) weights.emplace_back(source.name(), source.weight);
  return weights;
}

void require_same_run(const CheckpointReader& reader, const Recipe& before, const RunSetup& setup) {
  const std::string file = reader.path().string();
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
  COMERA_CHECK(reader.text("/data", "fingerprint") == setup.task->fingerprint(),
               "{} was trained on other data than {} holds now: resume with the same data", file,
               setup.task->source());
  // The best model so far was chosen by the held-out data, as the next one will be.
  const Attributes data = reader.attributes("/data");
  const std::string held_out = setup.task->held_out_fingerprint();
  if (data.contains("held_out") && !held_out.empty() && reader.text("/data", "held_out") != held_out &&
      !reader.text("/data", "held_out").empty())
    throw UsageError(
        fmt::format("{} chose its best model on other held-out data; resume with those, or start a new run "
                    "from this checkpoint (--from)",
                    file));
  const std::int64_t seed = reader.integer("/rng", "seed");
  COMERA_CHECK(seed == setup.recipe.run.seed, "{} was trained with run.seed = {}, but the recipe has {}",
               file, seed, setup.recipe.run.seed);
  if (before.lte != setup.recipe.lte)
    throw UsageError(fmt::format(
        "{} was trained with another [lte], which its adapters depend on; resume with that", file));
  require_same_encoder(setup.recipe, reader);
  if (setup.recipe.run.max_hours && !before.run.max_hours && reader.integer("/trainer", "step") > 0)
    throw UsageError(
        fmt::format("{} was trained without run.max_hours, so its hours so far are unknown; remove "
                    "run.max_hours, or start a new run from this checkpoint (--from)",
                    file));
  if (before.optim.kind != setup.recipe.optim.kind)
    throw UsageError(
        fmt::format("{} was trained with another optim.name, and its optimizer state belongs to that; resume "
                    "with it, or start a new run from this checkpoint (run.initial_checkpoint, --from)",
                    file));
}

// The place in the run that the recipe now describes is one that it has.
void require_place(const RunParts& run, const Recipe& before, const std::string& file) {
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

// Of keys that decide about results. That the tokenizer is the same one has been seen, wherever it lies.
void say_changes(const Recipe& before, const Recipe& now,
                 const std::function<void(const std::string&)>& say) {
  for (const RecipeChange& change : recipe_changes(before, now))
    if (!change.key.starts_with("run.") && !change.key.starts_with("distributed.") &&
        change.key != "data.tokenizer")
      say(fmt::format("changed since the checkpoint: {}", to_string(change)));
}

}  // namespace

void write_snapshot(CheckpointWriter& writer, const RunParts& run, const DataPlace& data) {
  const ParameterStore& store = run.engine.model().parameters();
  save_parameters(writer, store);
  save_optimizer(writer, store, run.engine.states());
  writer.attributes("/recipe", {{"toml", to_toml(run.setup.recipe)}});
  Attributes trainer = run.state.attributes();
  trainer["steps_of_phase"] = run.plan.steps();
  writer.attributes("/trainer", trainer);
  writer.attributes("/rng", {{"seed", run.setup.recipe.run.seed}});
  writer.attributes("/environment",
                    {{"instruction_set", instruction_set(run.setup)}, {"version", version()}});
  Attributes attributes = {{"epoch", data.position.epoch},
                           {"cursor", data.position.cursor},
                           {"taken", data.position.taken},
                           {"pack", data.position.micro_batch},
                           {"seed", data.position.seed},
                           {"samples_per_epoch", data.samples_per_epoch},
                           {"fingerprint", run.setup.task->fingerprint()},
                           {"held_out", run.setup.task->held_out_fingerprint()}};
  attributes.merge(run.setup.task->encoding());
  writer.attributes("/data", attributes);
  run.setup.task->save_encoding(writer);
  run.ranks.save(writer);
  if (const Float8State* float8 = run.engine.model().float8()) save_float8(writer, *float8);
}

DataPlace read_snapshot(const std::filesystem::path& checkpoint, const RunParts& run,
                        const std::function<void(const std::string&)>& say) {
  const CheckpointReader reader(checkpoint);
  const std::string file = checkpoint.string();
  Recipe& recipe = run.setup.recipe;
  const Recipe before = checkpoint_recipe(reader);
  require_same_run(reader, before, run.setup);
  const ParameterStore& store = run.engine.model().parameters();
  load_parameters(reader, store);
  load_optimizer(reader, store, run.engine.states());
  run.ranks.load(reader);
  if (Float8State* float8 = run.engine.model().float8()) load_float8(reader, *float8);
  run.state = RunState::load(reader);
  run.ranks.keep_order(reader, run.state);
  // A run is begun once, and --from need not be said again.
  recipe.run.initial_checkpoint = before.run.initial_checkpoint;
  const std::vector<std::int64_t> asked = run.plan.steps();
  run.plan.keep_begun(reader.list("/trainer", "steps_of_phase"), before, run.state.phase);
  for (std::int64_t phase = 0; phase < run.state.phase && phase < std::ssize(asked); ++phase)
    if (const auto steps = run.plan.steps(phase);
        steps != asked[static_cast<std::size_t>(phase)] && !run.plan.timed())
      say(fmt::format("phase '{}' ended after {} steps: its new length has no effect",
                      recipe.phases[static_cast<std::size_t>(phase)].name, steps));
  // The hours may be others now.
  run.plan.replan({run.state.phase, run.state.phase_step, run.state.seconds, run.state.phase_seconds});
  require_place(run, before, file);
  const std::string set = reader.text("/environment", "instruction_set"), own = instruction_set(run.setup);
  if (set != own)
    say(fmt::format("{} was computed with {}, this run computes with {}: it continues, but not bit-exactly",
                    file, set, own));
  say(fmt::format("resuming from {}: step {} of {}", file, run.state.step, run.plan.total()));
  say_changes(before, recipe, say);
  return {.position = {.epoch = reader.integer("/data", "epoch"),
                       .cursor = reader.integer("/data", "cursor"),
                       .taken = reader.integer("/data", "taken"),
                       .micro_batch = reader.integer("/data", "pack"),
                       .seed = reader.integer("/data", "seed")},
          .samples_per_epoch = reader.integer("/data", "samples_per_epoch")};
}

}  // namespace comera
