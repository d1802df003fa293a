// A training run until its first step: the model, random or from a checkpoint, and the run's files.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "checkpoints/model_state.h"
#include "kernels/backends/backends.h"
#include "kernels/core/machine.h"
#include "training/inference/trained_model.h"
#include "training/logging/run_starts.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/run/phase.h"
#include "training/run/training_run.h"

namespace comera {

TrainingRun::TrainingRun(const Recipe& recipe, const TrainingOptions& options)
    : setup_(recipe, options),
      job_(*setup_.host, options.stop_requested),
      checkpoints_(*setup_.directory, job_, recipe.run.keep_checkpoints, recipe.run.checkpoint_minutes),
      ranks_(setup_.recipe, *setup_.form) {
  make_engine();
  engine_->model().parameters().initialize(static_cast<std::uint64_t>(recipe.run.seed));
  plan_ = PhasePlan(setup_.recipe, [this](std::int64_t phase) { return micro_batches_per_epoch(phase); });
  if (setup_.found) resume();
  if (state_.step == 0 && !setup_.recipe.run.initial_checkpoint.empty()) load_initial();
  if (state_.step == 0) engine_->begin_average();
  if (ranks_.begin(engine_->model(), state_))
    refuse_collapsed(state_.step > 0 ? checkpoints_.last().string() + " holds" : "this is");
  say_place();
  on_first(*setup_.host, [this] {
    write_files();
    return std::string();
  });
}

TrainingRun::~TrainingRun() = default;

void TrainingRun::make_engine() {
  const Recipe& recipe = setup_.recipe;
  model_ = setup_.form->make(setup_.processor->allocator, true);
  engine_ = std::make_unique<StepEngine>(*model_, recipe.optim, *setup_.processor);
  if (setup_.sums_gradients())
    engine_->join(setup_.device_communicator(), recipe.distributed.bucket_mebibytes << 20);
}

std::int64_t TrainingRun::micro_batches_per_epoch(std::int64_t phase) const {
  return setup_.task->batches(phase_of(phase), *setup_.host, false)->micro_batches_per_epoch();
}

void TrainingRun::load_initial() {
  const TrainedModel trained = find_trained_model(setup_.recipe.run.initial_checkpoint);
  const CheckpointReader& reader = *trained.reader;
  require_same_encoder(setup_.recipe, reader);
  const InitialParameters initial = initialise_from(reader, setup_.recipe, engine_->model().parameters());
  std::set<std::string> layers;  // "head.pooler" of "head.pooler.core.0"
  begins_trained_ = !has_random_head(reader, engine_->model().parameters());
  for (const std::string& name : initial.fresh) {
    begins_trained_ &= name.starts_with("distillation.");  // which training alone reads
    layers.insert(name.substr(0, name.find('.', std::string_view("head.").size())));
  }
  setup_.log_line(fmt::format("loaded {} tensors from {}{}{}", initial.loaded, trained.checkpoint.string(),
                              layers.empty() ? "" : "; newly initialised: ", fmt::join(layers, ", ")));
  ranks_.take_units(reader);
}

void TrainingRun::resume() {
  const auto log = [this](const std::string& line) { setup_.log_line(line); };
  place_ = read_snapshot(setup_.found->path, parts(), log);
  if (state_.step == 0) state_.logged = {};  // the start is evaluated and logged again
  checkpoints_.resume(*setup_.found, state_.step, log);
  if (!checkpoints_.restore_best(state_.best_step, log)) state_.best_step = 0;
  // In case it was stopped between saving and keeping a milestone.
  if (state_.step > 0 && milestone_due()) checkpoints_.keep_milestone();
}

void TrainingRun::say_place() const {
  const Communicator& host = *setup_.host;
  if (host.alone()) return;
  setup_.log_line(fmt::format("{} processes, {}; this is process {} with {}, {} threads", host.world_size(),
                              communicator().name(), host.process(), setup_.processor->backend.name(),
                              thread_count()));
  const int here = machine_cpus();
  if (setup_.recipe.run.threads == 0 && 2 * host.own_cpus() * host.local_processes() <= here)
    setup_.log_line(
        fmt::format("its machine has {} CPUs and {} processes: mpirun --bind-to none, or --map-by slot:PE=N, "
                    "gives each process more",
                    here, host.local_processes()));
}

// The initial tensor trains and ranks of the layers: the checkpoints contain the current ones.
Recipe TrainingRun::recipe_to_keep() const {
  Recipe kept = setup_.recipe;
  kept.model.layers = setup_.given.model.layers;
  for (std::size_t i = 0; i < std::min(kept.phases.size(), setup_.given.phases.size()); ++i)
    kept.phases[i].layers = setup_.given.phases[i].layers;
  if (state_.step == 0) return kept;
  kept.tensorized = setup_.given.tensorized;
  std::error_code code;
  if (!std::filesystem::exists(setup_.directory->recipe(), code)) return kept;
  try {
    kept.tensorized.ranks = load_recipe(setup_.directory->recipe(), {}).tensorized.ranks;
  } catch (const Error&) {
    // It was not written by this program, and is replaced.
  }
  return kept;
}

// The tokenizer or another encoding of the data too, so that the run stays usable without the corpus. It is
// written first, since a recipe makes the folder a run's. A resumed run may have lost them, or have another
// recipe now.
void TrainingRun::write_files() {
  setup_.task->write_encoding(*setup_.directory);
  setup_.directory->write_recipe(to_toml(recipe_to_keep()));
  metrics_ = std::make_unique<MetricsWriter>(setup_.directory->metrics(), state_.step == 0 ? -1 : state_.step,
                                             state_.logged);
  note_start(setup_.directory->starts(), state_.step,
             setup_.processor->allocator.device().kind == DeviceKind::cpu
                 ? fmt::format("{} threads, {}", thread_count(),
                               instruction_set(setup_.recipe.precision.activations()))
                 : std::string(setup_.processor->backend.name()));
  if (setup_.recipe.run.tensorboard)
    events_ = std::make_unique<EventWriter>(setup_.directory->tensorboard(), state_.step);
  if (!metrics_->report().empty()) setup_.log_line(metrics_->report());
}

}  // namespace comera
