#include "training/resume/run_snapshot.h"

#include <fmt/format.h>

#include "checkpoints/float8_scales.h"
#include "checkpoints/model_state.h"
#include "kernels/backends/processors.h"
#include "kernels/core/grouped.h"
#include "kernels/core/version.h"
#include "recipes/changes.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/resume/same_run.h"

namespace comera {

namespace {

std::string instruction_set(const RunSetup& setup) {
  return computes_with(*setup.processor, setup.recipe.precision.activations());
}

// Of keys that decide about results. That the tokenizer is the same one has been seen, wherever it lies.
void log_changes(const Recipe& before, const Recipe& now,
                 const std::function<void(const std::string&)>& log_line) {
  for (const RecipeChange& change : recipe_changes(before, now))
    if (!change.key.starts_with("run.") && !change.key.starts_with("distributed.") &&
        change.key != "data.tokenizer")
      log_line(fmt::format("changed since the checkpoint: {}", to_string(change)));
}

}  // namespace

void write_snapshot(CheckpointWriter& writer, const RunParts& run, const DataPlace& data) {
  const ParameterStore& store = run.engine.model().parameters();
  run.engine.exchange_average();
  save_parameters(writer, store);
  save_optimizer(writer, store, run.engine.states());
  run.engine.exchange_average();
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
  if (run.setup.teacher) attributes["teacher"] = run.setup.teacher->content;
  attributes.merge(run.setup.task->encoding());
  writer.attributes("/data", attributes);
  run.setup.task->save_encoding(writer);
  run.ranks.save(writer);
  if (const Float8State* float8 = run.engine.model().float8()) save_float8(writer, *float8);
}

DataPlace read_snapshot(const std::filesystem::path& checkpoint, const RunParts& run,
                        const std::function<void(const std::string&)>& log_line) {
  const CheckpointReader reader(checkpoint);
  const std::string file = checkpoint.string();
  Recipe& recipe = run.setup.recipe;
  const Recipe before = checkpoint_recipe(reader);
  require_same_run(reader, before, run.setup);
  const ParameterStore& store = run.engine.model().parameters();
  load_parameters(reader, store);
  load_optimizer(reader, store, run.engine.states());
  run.engine.exchange_average();
  run.ranks.load(reader);
  if (Float8State* float8 = run.engine.model().float8()) load_float8(reader, *float8);
  run.state = RunState::load(reader);
  run.ranks.keep_prune_order(reader, run.state);
  // A run is started once, and --from need not be repeated.
  recipe.run.initial_checkpoint = before.run.initial_checkpoint;
  const std::vector<std::int64_t> asked = run.plan.steps();
  run.plan.keep_begun(reader.list("/trainer", "steps_of_phase"), before, run.state.phase);
  for (std::int64_t phase = 0; phase < run.state.phase && phase < std::ssize(asked); ++phase)
    if (const auto steps = run.plan.steps(phase);
        steps != asked[static_cast<std::size_t>(phase)] && !run.plan.timed())
      log_line(fmt::format("phase '{}' ended after {} steps: its new length has no effect",
                           recipe.phases[static_cast<std::size_t>(phase)].name, steps));
  // The hours may have changed.
  run.plan.replan({run.state.phase, run.state.phase_step, run.state.seconds, run.state.phase_seconds});
  require_same_phase(run, before, file);
  const std::string set = reader.text("/environment", "instruction_set"), own = instruction_set(run.setup);
  if (set != own)
    log_line(
        fmt::format("{} was computed with {}, this run computes with {}: it continues, but not bit-exactly",
                    file, set, own));
  log_line(fmt::format("resuming from {}: step {} of {}", file, grouped(run.state.step),
                       grouped(run.plan.total())));
  log_changes(before, recipe, log_line);
  return {.position = {.epoch = reader.integer("/data", "epoch"),
                       .cursor = reader.integer("/data", "cursor"),
                       .taken = reader.integer("/data", "taken"),
                       .micro_batch = reader.integer("/data", "pack"),
                       .seed = reader.integer("/data", "seed"),
                       .step = run.state.phase_step},
          .samples_per_epoch = reader.integer("/data", "samples_per_epoch")};
}

}  // namespace comera
