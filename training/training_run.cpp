#include "training/training_run.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <set>

#include "checkpoints/model_state.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "reports/model_report.h"
#include "storage/durable_file.h"
#include "training/checkpoint_recipe.h"
#include "training/json.h"
#include "training/masked_language_task.h"
#include "training/phase.h"
#include "training/sequence_task.h"
#include "training/trained_model.h"

namespace comera {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The recipe with the ranks that its layers have in the checkpoint that the run goes on from or begins with.
Recipe with_ranks(Recipe recipe, const std::optional<FoundCheckpoint>& found) {
  if (found)
    take_ranks(recipe, CheckpointReader(found->path), RanksOf::resumed);
  else if (!recipe.run.initial_checkpoint.empty())
    take_ranks(recipe, CheckpointReader(find_trained_model(recipe.run.initial_checkpoint).checkpoint));
  return recipe;
}

const std::string& checked_path(const std::string& path, const char* key) {
  if (path.empty())
    throw UsageError(fmt::format("{} is missing; give it in the recipe or with --set {}=...", key, key));
  return path;
}

// Each rank of a machine has a GPU of its own: that of its number, or the only one that it sees.
std::string own_device(const std::string& device, Communicator& host) {
  if (host.alone() || device == "cpu") return device;
  const int gpus = cuda_device_count();
  const std::vector<std::string> only = host.gather(gpus == 1 ? cuda_device_address(0) : "");
  if (gpus == 1 && std::ranges::count(only, only[host.rank()]) == 1)
    return device == "auto" ? "cuda:0" : device;
  if (host.local_ranks() == 1) return device;
  if (device == "auto" && gpus == 0) return device;
  if (device != "auto" && device != "cuda")
    throw UsageError(fmt::format(
        "run.device = \"{}\" is one GPU, but {} ranks of this job run on this machine: give \"cuda\", "
        "and each takes the GPU of its number",
        device, host.local_ranks()));
  if (gpus > 0 && host.local_ranks() > gpus)
    throw UsageError(
        fmt::format("{} ranks of this job run on this machine, which has {} GPUs: start as many ranks as "
                    "there are GPUs, or "
                    "train on the CPUs with --device cpu",
                    host.local_ranks(), gpus));
  return gpus > 0 ? fmt::format("cuda:{}", host.local_rank()) : device;
}

Processor processor_for(const Recipe& recipe, const TrainingOptions& options, Communicator& host) {
  Processor processor = options.processor != nullptr
                            ? *options.processor
                            : find_processor(own_device(recipe.run.device, host),
                                             recipe.precision.activations(), recipe.precision.operands());
  processor.graphs = recipe.run.graphs;
  return processor;
}

}  // namespace

TrainingRun::TrainingRun(const Recipe& recipe, const TrainingOptions& options)
    : options_(options),
      host_(begin_job(recipe)),
      directory_(open_directory(checked_path(recipe.run.output, "run.output"))),
      log_(open_log()),
      found_(find_checkpoint()),
      recipe_(with_ranks(options.finetune ? resolve_task(recipe) : recipe, found_)),
      asked_ranks_(recipe.tensorized.ranks),
      tokenizer_(load_tokenizer()),
      config_(encoder_config(recipe_, tokenizer_.vocabulary())),
      processor_(processor_for(recipe_, options, *host_)),
      of_devices_(join_devices()),
      communicator_(of_devices_ ? of_devices_.get() : host_),
      task_(make_task()) {
  require_same_files(*host_, task_->inputs());
  if (host_->first())
    checkpoints_ =
        std::make_unique<CheckpointDirectory>(directory_->checkpoints(), recipe.run.keep_checkpoints);
  prepare_threads(static_cast<int>(recipe.run.threads > 0 ? recipe.run.threads : host_->own_cpus()));
  make_engine();
  engine_->model().parameters().initialize(static_cast<std::uint64_t>(recipe.run.seed));
  for (std::int64_t phase = 0; phase < static_cast<std::int64_t>(recipe.phases.size()); ++phase) {
    const auto [steps, per_epoch] = phase_steps(phase);
    const PhaseSection& section = recipe.phases[phase];
    if (section.epochs && section.warmup_steps > steps)
      throw UsageError(
          fmt::format("phase.{0}.warmup_steps = {1} is more than the {2} steps that phase.{0}.epochs = {3} "
                      "gives with these data; lower it, or give more epochs",
                      phase, section.warmup_steps, steps, *section.epochs));
    steps_of_phase_.push_back(steps);
    steps_per_epoch_.push_back(per_epoch);
    total_steps_ += steps;
  }
  if (found_) resume_from(*found_);
  if (state_.step == 0 && !recipe_.run.initial_checkpoint.empty()) load_initial();
  begin_ranks();
  say_place();
  on_first(*host_, [&] {
    // The tokenizer too, so that the run stays usable without the corpus, and first, since a recipe makes the
    // folder a run's. A resumed run may have lost them, or have another recipe now.
    directory_->write_tokenizer(tokenizer_.bytes());
    directory_->write_recipe(to_toml(recipe_to_keep()));
    metrics_ = std::make_unique<MetricsWriter>(directory_->metrics(), state_.step == 0 ? -1 : state_.step,
                                               state_.logged);
    if (!metrics_->report().empty()) say_to(options_.output, "{}\n", metrics_->report());
    return std::string();
  });
}

// With the checkpoint that the run begins with, which must have been trained with it: what the model is like
// follows from both, and is no fault of the recipe's where they do not fit.
data::Tokenizer TrainingRun::load_tokenizer() const {
  const std::string& file = checked_path(recipe_.data.tokenizer, "data.tokenizer");
  data::Tokenizer tokenizer = data::Tokenizer::load(file);
  std::vector<GivenFile> given = {{"data.tokenizer", file, tokenizer.hash()}};
  std::optional<CheckpointReader> start;
  if (found_)
    start.emplace(found_->path);
  else if (!recipe_.run.initial_checkpoint.empty())
    start.emplace(find_trained_model(recipe_.run.initial_checkpoint).checkpoint);
  if (start)
    given.push_back(
        {found_ ? "run.output" : "run.initial_checkpoint", start->path().string(), start->fingerprint()});
  require_same_files(*host_, given);
  if (start) require_same_tokenizer(*start, tokenizer, file);
  return tokenizer;
}

// The ranks that layers began with: what adaptation has made of them is in the checkpoints.
Recipe TrainingRun::recipe_to_keep() const {
  Recipe kept = recipe_;
  if (state_.step == 0) return kept;
  kept.tensorized.ranks = asked_ranks_;
  std::error_code code;
  if (!std::filesystem::exists(directory_->recipe(), code)) return kept;
  try {
    kept.tensorized.ranks = load_recipe(directory_->recipe(), {}).tensorized.ranks;
  } catch (const Error&) {
    // It is not what this program wrote, and is written anew.
  }
  return kept;
}

void TrainingRun::make_engine() {
  engine_ = std::make_unique<StepEngine>(config_, optimizer_options(recipe_.optim), processor_);
  if (sums_over_ranks()) engine_->join(*communicator_, recipe_.distributed.bucket_mebibytes << 20);
}

TrainingRun::~TrainingRun() = default;

std::unique_ptr<TrainingTask> TrainingRun::make_task() const {
  const auto refuse_masks = [this](const std::string& why) {
    for (std::size_t phase = 0; phase < recipe_.phases.size(); ++phase)
      if (recipe_.phases[phase].mask_probability)
        throw UsageError(fmt::format("phase.{}.mask_probability {}; leave it out", phase, why));
  };
  if (options_.finetune) {
    require_training_keys(recipe_);
    refuse_masks("is for pretraining, and a task masks nothing");
    if (recipe_.run.evaluation_batches > 0)
      throw UsageError(
          fmt::format("run.evaluation_batches = {} is for pretraining; a task's validation files are scored "
                      "whole: leave it "
                      "out",
                      recipe_.run.evaluation_batches));
    std::int64_t length = 0;
    for (const PhaseSection& phase : recipe_.phases) length = std::max(length, phase.length);
    auto task = std::make_unique<SequenceTask>(recipe_.task, tokenizer_, config_, length);
    for (const std::string& line : task->reports()) say_to(options_.output, "{}\n", line);
    return task;
  }
  require_pretraining_keys(recipe_);
  require_masked_language_head(config_);
  auto task = std::make_unique<MaskedLanguageTask>(recipe_.data, tokenizer_, config_);
  if (!task->draws_masks())
    refuse_masks(fmt::format("changes nothing, for {} has targets of its own", recipe_.data.train));
  return task;
}

void TrainingRun::load_initial() {
  const TrainedModel trained = find_trained_model(recipe_.run.initial_checkpoint);
  const CheckpointReader reader(trained.checkpoint);
  require_same_encoder(recipe_, reader);
  const InitialParameters initial = load_initial_parameters(reader, engine_->model().parameters());
  std::set<std::string> layers;  // "head.pooler" of "head.pooler.core.0"
  for (const std::string& name : initial.fresh)
    layers.insert(name.substr(0, name.find('.', std::string_view("head.").size())));
  say_to(options_.output, "{} tensors from {}{}{}\n", initial.loaded, trained.checkpoint.string(),
         layers.empty() ? "" : "; new: ", fmt::join(layers, ", "));
  take_rank_units(reader);
}

data::LoaderOptions TrainingRun::loader_options(std::int64_t phase) const {
  data::LoaderOptions options = comera::loader_options(recipe_, phase, *task_, engine_->model());
  options.rank = host_->rank();
  options.ranks = host_->ranks();
  return options;
}

std::pair<std::int64_t, std::int64_t> TrainingRun::phase_steps(std::int64_t phase) const {
  const PhaseSection& section = recipe_.phases[phase];
  if (section.steps && recipe_.run.evaluation_epochs == 0) return {*section.steps, 0};
  data::LoaderOptions options = loader_options(phase);
  options.prefetch = 0;
  const data::Loader loader(task_->samples(section.length), options);
  const auto packs = static_cast<double>(loader.count_packs_per_epoch());
  const auto steps = [&](double epochs) {
    return std::max<std::int64_t>(
        1,
        static_cast<std::int64_t>(std::ceil(epochs * packs / static_cast<double>(section.packs_per_step))));
  };
  return {section.steps ? *section.steps : steps(*section.epochs), steps(1)};
}

void TrainingRun::open_phase() {
  const PhaseSection& section = recipe_.phases[state_.phase];
  phase_ = std::make_unique<PhaseData>();
  phase_->options = loader_options(state_.phase);
  phase_->loader = std::make_unique<data::Loader>(task_->samples(section.length), phase_->options);
  if (position_) {
    COMERA_CHECK(phase_->loader->samples_per_epoch() == saved_samples_,
                 "{} was made on {} samples, but {} now gives {} of length {}: resume with the same data and "
                 "phase.{}.length",
                 saved_path_.string(), saved_samples_, task_->source(), phase_->loader->samples_per_epoch(),
                 section.length, state_.phase);
    try {
      phase_->loader->seek(*position_);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", saved_path_.string(), error.what()));
    }
  }
  position_.reset();
  phase_->schedule = schedule_of(section, steps_of_phase_[state_.phase]);
  open_stage();
  engine_->set_capacity(pack_capacity(phase_->options.capacity));
}

void TrainingRun::one_step() {
  const PhaseSection& section = recipe_.phases[state_.phase];
  const data::LoaderPosition before = phase_->loader->position();
  engine_->clear_results();
  double targets = 0;
  std::int64_t tokens = 0;
  const std::int64_t ranks = host_->ranks();
  for (std::int64_t pack = host_->rank(); pack < section.packs_per_step; pack += ranks) {
    const data::Batch& batch = phase_->loader->next();
    engine_->load(batch);
    engine_->micro({.seed = static_cast<std::uint64_t>(recipe_.run.seed),
                    .step = static_cast<std::uint32_t>(state_.step),
                    .pack = static_cast<std::uint32_t>(pack)},
                   pack + ranks >= section.packs_per_step);
    targets += static_cast<double>(task_->targets(batch));
    tokens += batch.tokens;
  }
  if (ranks > 1)
    share_step(targets, tokens);
  else
    save_agreed_ = checkpoint_is_due();
  const double factor = phase_->schedule.factor(state_.phase_step);
  ranks_.step = rank_step();
  const StepRates rates = step_rates(section.learning_rate, factor);
  // Moments know nothing of skipped steps, so that their bias is that of the updates that were made.
  engine_->apply(state_.step - state_.skipped, targets, rates, recipe_.optim.clip_norm, ranks_.step);
  if (engine_->results().nonfinite == 0) {
    state_.window_loss += engine_->results().loss_sum;
    state_.window_targets += engine_->results().target_count;
    state_.skipped_in_a_row = 0;
    state_.first_nonfinite.clear();
  } else {
    skip_step(before);
  }
  state_.tokens += tokens;
  ++state_.step;
  ++state_.phase_step;
  after_rank_step();
}

void TrainingRun::log_step(double seconds_per_step, double tokens_per_second) {
  const PhaseSection& section = recipe_.phases[state_.phase];
  const double factor = phase_->schedule.factor(state_.phase_step - 1);
  const Arena::Plan& plan = engine_->arena_plan();
  const Allocator& allocator = engine_->allocator();
  const ParameterStore& store = engine_->model().parameters();
  JsonObject rates, memory;
  section.learning_rate.for_each([&](const char* name, double rate) { rates.add(name, rate * factor); });
  memory.add("parameters", allocator.use(MemoryKind::parameters).peak)
      .add("gradients", allocator.use(MemoryKind::gradients).peak)
      .add("optimizer", allocator.use(MemoryKind::optimizer).peak)
      .add("activations", plan.saved)
      .add("workspace", plan.total - plan.saved + allocator.use(MemoryKind::workspace).peak);
  JsonObject line;
  line.add("phase", section.name);
  // Nobody knows the loss of steps that had no targets, or were skipped.
  if (state_.window_targets > 0) line.add("loss", state_.window_loss / state_.window_targets);
  line.add("targets", static_cast<std::int64_t>(state_.window_targets))
      .add("learning_rate", rates)
      .add_finite("gradient_norm", engine_->results().gradient_norm)
      .add("skipped_steps", state_.skipped)
      .add("tokens", state_.tokens)
      .add("tokens_per_second", tokens_per_second)
      .add("ms_per_step", seconds_per_step * 1e3)
      .add("parameters", store.count())
      .add("compression", static_cast<double>(dense_parameters(config_)) / static_cast<double>(store.count()))
      .add("peak_memory", memory);
  add_rank_metrics(line);
  add_waiting(line);
  write_metrics(state_.step, line);
  state_.window_loss = 0;
  state_.window_targets = 0;
}

std::string TrainingRun::loss_note() const {
  return state_.window_targets > 0 ? fmt::format("loss {:.4f}", state_.window_loss / state_.window_targets)
                                   : "no loss yet";
}

std::optional<Evaluation> TrainingRun::evaluate_now(bool record) {
  progress_->say("evaluating on held-out data");
  std::optional<Evaluation> found = task_->evaluate(*engine_, phase_->options, recipe_.run.evaluation_batches,
                                                    options_.stop_requested, *host_);
  stop_agreed_ |= !found;
  if (!found || !record) return found;
  state_.evaluated_step = state_.step;
  write_metrics(state_.step, task_->metrics(*found));
  progress_->print(fmt::format("step {}: {}", state_.step, task_->describe(*found)));
  const double done = static_cast<double>(state_.step) / static_cast<double>(total_steps_);
  if (const std::string advice = task_->advice(*found, done); !advice.empty()) progress_->print(advice);
  if (task_->keeps_best() && target_reached() && std::isfinite(found->score) &&
      (state_.best_step == 0 || found->score > state_.best_score)) {
    state_.best_score = found->score;
    state_.best_step = state_.step;
    save();
    keep_best();
  }
  return found;
}

bool TrainingRun::ends_evaluation_epoch() const {
  const double epochs = recipe_.run.evaluation_epochs;
  if (epochs <= 0) return false;
  // The number of evaluations that are due grows with this step.
  const double every = epochs * static_cast<double>(steps_per_epoch_[state_.phase]);
  const auto due_by = [&](std::int64_t step) {
    return static_cast<std::int64_t>((static_cast<double>(step) + 1e-6) / every);
  };
  return due_by(state_.phase_step) > due_by(state_.phase_step - 1);
}

bool TrainingRun::evaluation_due() const {
  if (!task_->evaluates() || state_.evaluated_step == state_.step) return false;
  const std::int64_t interval = recipe_.run.evaluation_interval;
  return (interval > 0 && state_.step % interval == 0) ||
         state_.phase_step == steps_of_phase_[state_.phase] || ends_evaluation_epoch();
}

TrainingOutcome TrainingRun::run() {
  if (host_->alone()) return train();
  try {
    return train();
  } catch (...) {
    host_->fail_with_exception();
  }
}

TrainingOutcome TrainingRun::train() {
  TrainingOutcome outcome;
  progress_ = std::make_unique<ProgressBar>(task_->name(), total_steps_, state_.step, options_.output);
  double training_seconds = 0, window_seconds = 0;
  std::int64_t first_tokens = state_.tokens, window_tokens = state_.tokens, window_steps = 0;
  const auto stop_here = [&] {
    return stop_wanted() || (options_.stop_after > 0 && state_.step >= options_.stop_after);
  };
  const std::int64_t phases = static_cast<std::int64_t>(recipe_.phases.size());
  saved_at_ = Clock::now();  // nothing is lost yet
  open_phase();
  // What a stop interrupted.
  if (state_.phase_step > 0 && evaluation_due()) {
    outcome.evaluation = evaluate_now(true);
    if (outcome.evaluation) save();
  }
  while (true) {
    if (stop_here() && state_.step < total_steps_) {
      if (saved_step_ != state_.step) save();
      break;
    }
    if (state_.phase_step >= steps_of_phase_[state_.phase]) {
      if (saved_step_ != state_.step) save();
      if (state_.phase + 1 == phases) break;
      ++state_.phase;
      state_.phase_step = 0;
      open_phase();
    }
    progress_->skip_time();
    const auto start = Clock::now();
    one_step();
    const double seconds = seconds_since(start);
    training_seconds += seconds;
    window_seconds += seconds;
    ++window_steps;
    const bool phase_ends = state_.phase_step == steps_of_phase_[state_.phase];
    const double rate = static_cast<double>(state_.tokens - window_tokens) / std::max(window_seconds, 1e-9);
    progress_->update(state_.step, fmt::format("{}, {:.0f} tokens/s{}", loss_note(), rate, skipped_note()));
    if (state_.step % recipe_.run.log_interval == 0 || phase_ends) {
      log_step(window_seconds / static_cast<double>(window_steps), rate);
      window_seconds = 0;
      window_steps = 0;
      window_tokens = state_.tokens;
    }
    const auto due = [&](std::int64_t interval) { return interval > 0 && state_.step % interval == 0; };
    if (phase_ends)
      close_stage();
    else if (compaction_due())
      compact_ranks();
    if (evaluation_due()) outcome.evaluation = evaluate_now(true);
    const bool save_now = save_agreed_ || phase_ends || due(recipe_.run.checkpoint_interval);
    if (save_now && saved_step_ != state_.step) save();
    if (options_.after_step) options_.after_step(state_.step);
  }
  // A run that had ended before: its metrics have the line already.
  const bool trained = state_.step >= total_steps_;
  if (trained && task_->evaluates() && state_.evaluated_step == state_.step && !outcome.evaluation)
    outcome.evaluation = evaluate_now(false);
  outcome.finished = trained && !evaluation_due();
  outcome.step = state_.step;
  outcome.tokens_per_second =
      static_cast<double>(state_.tokens - first_tokens) / std::max(training_seconds, 1e-9);
  outcome.checkpoint = saved_path_;
  outcome.best_score = state_.best_score;
  outcome.best_step = state_.best_step;
  outcome.skipped = state_.skipped;
  if (state_.best_step > 0) outcome.best = directory_->best();
  progress_.reset();
  return outcome;
}

}  // namespace comera
