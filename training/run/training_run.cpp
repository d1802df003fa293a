#include "training/run/training_run.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "kernels/core/grouped.h"
#include "kernels/core/terminal.h"
#include "recipes/phase_recipe.h"
#include "training/ranks/grown_model.h"
#include "training/resume/same_run.h"
#include "training/run/phase.h"

namespace comera {

// Times of steps: of all, and of those since the last line of metrics.
class TrainingRun::Stopwatch {
 public:
  explicit Stopwatch(std::int64_t units) : first_units_(units), window_units_(units) {}

  template <class Step>
  void time(const Step& step) {
    const auto start = std::chrono::steady_clock::now();
    step();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    seconds_ += seconds;
    window_seconds_ += seconds;
    ++window_steps_;
  }
  // The speed of the steps since restart().
  Speed speed(std::int64_t units) const {
    return {.seconds_per_step = window_seconds_ / static_cast<double>(window_steps_),
            .units_per_second = static_cast<double>(units - window_units_) / std::max(window_seconds_, 1e-9)};
  }
  void restart(std::int64_t units) {
    window_seconds_ = 0;
    window_steps_ = 0;
    window_units_ = units;
  }
  double units_per_second(std::int64_t units) const {
    return static_cast<double>(units - first_units_) / std::max(seconds_, 1e-9);
  }

 private:
  double seconds_ = 0, window_seconds_ = 0;
  std::int64_t first_units_, window_units_, window_steps_ = 0;
};

namespace {

std::string progress_note(const RunState& state, const Speed& speed, const char* unit) {
  const std::string loss = state.window_targets > 0
                               ? fmt::format("loss {:.4f}", state.window_loss / state.window_targets)
                               : "no loss yet";
  const std::string skipped = state.skipped == 0 ? "" : fmt::format(", {} skipped", state.skipped);
  return fmt::format("{}, {} {}/s{}", loss, grouped(std::llround(speed.units_per_second)), unit, skipped);
}

bool divides(std::int64_t interval, std::int64_t step) { return interval > 0 && step % interval == 0; }

}  // namespace

TrainingOutcome TrainingRun::run() {
  const auto train_or_explain = [this] {
    try {
      return train();
    } catch (const Error& error) {
      fail_with_cause(error);
    }
  };
  if (job_.alone()) return train_or_explain();
  try {
    return train_or_explain();
  } catch (...) {
    job_.host().fail_with_exception();
  }
}

TrainingOutcome TrainingRun::train() {
  const auto name = setup_.recipe.distillation ? "distill" : setup_.task->name();
  progress_ = std::make_unique<ProgressBar>(name, plan_.total(), state_.step, setup_.options.output);
  checkpoints_.start_clock();
  accounted_ = std::chrono::steady_clock::now();
  watch_.emplace(uniform_loss(), state_.step == 0);
  Stopwatch watch(state_.units);
  std::optional<Evaluation> evaluation;
  open_phase();
  if (state_.step == 0 && begins_trained_) evaluate_start();
  // Repeats what a stop interrupted.
  if (state_.phase_step > 0 && evaluation_due() && (evaluation = evaluate(true))) save();
  while (!finished() && !stop_here()) {
    if (phase_done()) {
      if (!checkpoints_.has(state_.step)) save();
      ++state_.phase;
      state_.phase_step = 0;
      state_.phase_seconds = 0;
      open_phase();
    }
    progress_->skip_time();
    watch.time([this] { step(); });
    const Speed speed = watch.speed(state_.units);
    progress_->update(state_.step, progress_note(state_, speed, setup_.task->unit()));
    if (state_.step % setup_.recipe.run.log_interval == 0 || phase_done()) {
      log_step(speed);
      watch.restart(state_.units);
    }
    if (phase_done() || ranks_.compaction_due(state_)) compact();
    if (phase_done()) ranks_.close(state_, [this](const std::string& line) { log_line(line); });
    if (evaluation_due()) evaluation = evaluate(true);
    if (save_due() && !checkpoints_.has(state_.step)) save();
    if (milestone_due()) checkpoints_.keep_milestone();
    if (setup_.options.after_step) setup_.options.after_step(state_.step);
  }
  if (!checkpoints_.has(state_.step)) save();
  // For a run that had finished before: its metrics have the line already.
  if (finished() && setup_.task->evaluates() && state_.evaluated_step == state_.step && !evaluation)
    evaluation = evaluate(false);
  TrainingOutcome outcome = this->outcome();
  outcome.evaluation = evaluation;
  outcome.units_per_second = watch.units_per_second(state_.units);
  progress_.reset();
  return outcome;
}

void TrainingRun::open_phase() {
  const bool larger = state_.phase_step == 0 && grows(setup_.recipe, state_.phase);
  if (larger) grow();
  phase_ = std::make_unique<Phase>();
  phase_->loader = setup_.task->batches(phase_of(state_.phase), *setup_.host, true);
  if (place_)
    seek_same_samples(*phase_->loader, *place_, checkpoints_.last().string(), setup_.task->source(),
                      state_.phase, section().length);
  place_.reset();
  const std::int64_t steps = plan_.steps(state_.phase);
  phase_->schedule = schedule_of(section(), steps);
  phase_->schedule.warmup_steps = plan_.warmup(state_.phase, section());
  const auto log = [this](const std::string& line) { log_line(line); };
  const bool other_size = ranks_.open(*engine_, state_, steps, phase_->schedule, log);
  const bool other_length = state_.phase > 0 && state_.phase_step == 0 && !setup_.task->compares_lengths() &&
                            section().length != setup_.recipe.phases[state_.phase - 1].length;
  if (other_size || other_length || larger) set_best_aside();
  engine_->set_micro_batches(*setup_.task->micro_batches(phase_of(state_.phase)));
}

// One step: this process's micro-batches, the sums over all processes, the update, and pruning.
void TrainingRun::step() {
  const Recipe& recipe = setup_.recipe;
  const data::LoaderPosition before = phase_->loader->position();
  engine_->clear_results();
  Job::Step own;
  const std::int64_t processes = job_.host().world_size();
  for (std::int64_t micro_batch = job_.host().process(); micro_batch < section().micro_batches_per_step;
       micro_batch += processes) {
    const data::BatchStream::MicroBatch batch = phase_->loader->next();
    engine_->load(batch.block);
    engine_->micro({.seed = static_cast<std::uint64_t>(recipe.run.seed),
                    .step = static_cast<std::uint32_t>(state_.step),
                    .micro_batch = static_cast<std::uint32_t>(micro_batch)},
                   micro_batch + processes >= section().micro_batches_per_step);
    own.targets += batch.targets;
    own.units += batch.units;
  }
  own.save = job_.first() && checkpoints_.due();  // by the clock of process 0
  own.waited_ms = engine_->waited_ms();
  const auto now = std::chrono::steady_clock::now();
  own.seconds = std::chrono::duration<double>(now - accounted_).count();
  accounted_ = now;
  const Job::Step total = job_.share(own);
  save_agreed_ = total.save;
  phase_->rate_factor = phase_->schedule.factor(state_.phase_step);
  const StepRates rates(section().learning_rate, phase_->rate_factor);
  // Moments know nothing of skipped steps, so that their bias is that of the updates that were made.
  engine_->apply(state_.step - state_.skipped, total.targets, rates, recipe.optim.clip_norm,
                 ranks_.begin_step(state_.phase_step, plan_.steps(state_.phase)));
  const bool finite = engine_->results().nonfinite == 0;
  if (finite)
    state_.add_loss(setup_.task->loss_scale() * engine_->results().loss_sum, engine_->results().target_count);
  else
    skip_step(before);
  state_.units += total.units;
  ++state_.step;
  ++state_.phase_step;
  take_time(total.seconds);
  if (ranks_.end_step(*engine_)) refuse_collapsed(fmt::format("step {} left", state_.step));
  if (merge_due()) engine_->consolidate();
  if (finite) watch_divergence();
}

// Phases end by time, so everything that depends on steps (rates and rank targets) follows time too.
void TrainingRun::take_time(double seconds) {
  if (!plan_.timed()) return;
  state_.seconds += seconds;
  state_.phase_seconds += seconds;
  plan_.replan({state_.phase, state_.phase_step, state_.seconds, state_.phase_seconds});
  phase_->schedule.steps = plan_.steps(state_.phase);
  phase_->schedule.warmup_steps = plan_.warmup(state_.phase, section());
  progress_->set_total(plan_.total());
}

// Counted in steps, like evaluations, so that evaluations coincide with merges even after skipped steps.
bool TrainingRun::merge_due() const {
  const auto& lte = setup_.recipe.lte;
  return lte && (divides(lte->merge_steps, state_.step) || phase_done());
}

void TrainingRun::log_step(const Speed& speed) {
  Json line =
      step_metrics(section(), phase_->rate_factor, *engine_, *setup_.form, *setup_.task, state_, speed);
  ranks_.add_metrics(line);
  const std::optional<Job::Waiting> waiting = job_.take_waiting();
  // A GPU waits on its own, invisible to the host.
  if (waiting && setup_.processor->allocator.device().kind == DeviceKind::cpu)
    line["waiting_ms"] = {{"sums", waiting->sums}, {"processes", waiting->processes}};
  write_metrics(state_.step, line);
  state_.window_loss = 0;
  state_.window_targets = 0;
}

// To dense linear layers of the same function, whose matrices are rounded once, or to more blocks.
void TrainingRun::grow() {
  const bool dense = becomes_dense(setup_.recipe, state_.phase),
             deeper = adds_blocks(setup_.recipe, state_.phase);
  const std::int64_t parameters = engine_->model().parameters().count(), blocks = setup_.recipe.model.layers;
  const auto take = [&] { return GrownModel(*engine_, dense, blocks); };
  const GrownModel weights = take();
  std::optional<GrownModel> averaged;
  if (engine_->averages()) averaged = engine_->with_average(take);
  setup_.recipe = recipe_in_phase(setup_.recipe, state_.phase);
  setup_.form->follow(setup_.recipe);
  remake_engine();
  if (averaged) averaged->write(*engine_);
  engine_->exchange_average();
  weights.write(*engine_);
  if (deeper) ranks_.begin_anew(engine_->model(), state_);
  const std::string what = dense ? "the tensor trains of linear layers are dense matrices now" : "";
  const std::string more =
      deeper ? fmt::format("{} layers instead of {}", setup_.recipe.model.layers, blocks) : "";
  log_line(fmt::format("phase {}: {}{}{}: {} parameters instead of {}", section().name, what,
                       dense && deeper ? ", " : "", more, grouped(engine_->model().parameters().count()),
                       grouped(parameters)));
}

void TrainingRun::remake_engine() {
  Allocator& allocator = engine_->allocator();
  engine_.reset();
  model_.reset();  // its memory is reused by the new one
  allocator.reset_peaks();
  make_engine();
}

void TrainingRun::compact() {
  const auto remake = [this] { remake_engine(); };
  const auto log = [this](const std::string& line) { log_line(line); };
  if (!ranks_.compact(engine_, remake, state_, log)) return;
  engine_->set_micro_batches(*setup_.task->micro_batches(phase_of(state_.phase)));
  progress_->announce(fmt::format("compacted to {} parameters", engine_->model().parameters().count()));
}

bool TrainingRun::evaluation_due() const {
  if (!setup_.task->evaluates() || state_.evaluated_step == state_.step) return false;
  return divides(setup_.recipe.run.evaluation_interval, state_.step) || phase_done() ||
         plan_.ends_evaluation_epoch(state_.phase, state_.phase_step);
}

std::optional<Evaluation> TrainingRun::evaluate(bool record) {
  TrainingTask& task = *setup_.task;
  progress_->announce("evaluating on held-out data");
  std::optional<Evaluation> found = engine_->with_average([&] {
    return task.evaluate(*engine_, phase_of(state_.phase), setup_.options.stop_requested, job_.host());
  });
  if (!found) job_.stop();
  if (!found || !record) return found;
  state_.evaluated_step = state_.step;
  log_evaluation(*found, is_best(*found));
  const double done = static_cast<double>(state_.step) / static_cast<double>(plan_.total());
  if (const std::string advice = task.advice(*found, done); !advice.empty()) log_line(advice);
  take_best(*found);
  return found;
}

// What training makes of the model is compared with this, which is no candidate for the best. It takes none
// of the time that a phase divides among its steps.
void TrainingRun::evaluate_start() {
  if (!setup_.task->evaluates()) return;
  // Delayed scaling has measured no scales yet.
  if (setup_.recipe.precision.fp8_recipe == Float8Config::Scaling::delayed) return;
  if (const auto start = evaluate(false)) log_evaluation(*start, false);
  accounted_ = std::chrono::steady_clock::now();
}

void TrainingRun::log_evaluation(const Evaluation& evaluation, bool is_best) {
  write_metrics(state_.step, setup_.task->metrics(evaluation));
  const std::string line =
      fmt::format("step {}: {}", grouped(state_.step), setup_.task->describe(evaluation));
  log_line(is_best ? styled(setup_.options.output, Style::good, line) : line);
}

bool TrainingRun::is_best(const Evaluation& evaluation) const {
  return setup_.task->keeps_best() && ranks_.target_reached() && std::isfinite(evaluation.score) &&
         (state_.best_step == 0 || evaluation.score > state_.best_score);
}

void TrainingRun::take_best(const Evaluation& evaluation) {
  if (!setup_.task->keeps_best() || !ranks_.target_reached()) return;
  if (!is_best(evaluation)) {
    if (++state_.not_better; out_of_patience())
      log_line(
          fmt::format("no better model in {} evaluations: the run ends (run.patience)", state_.not_better));
    return;
  }
  state_.not_better = 0;
  state_.best_score = evaluation.score;
  state_.best_step = state_.step;
  save();
  checkpoints_.keep_best();
}

bool TrainingRun::stop_here() const {
  const std::int64_t after = setup_.options.stop_after;
  return job_.stop_wanted() || (after > 0 && state_.step >= after);
}

bool TrainingRun::milestone_due() const { return divides(setup_.recipe.run.milestone_interval, state_.step); }

bool TrainingRun::save_due() const {
  return save_agreed_ || phase_done() || milestone_due() ||
         divides(setup_.recipe.run.checkpoint_interval, state_.step);
}

TrainingOutcome TrainingRun::outcome() const {
  TrainingOutcome outcome;
  outcome.finished = finished() && !evaluation_due();
  outcome.step = state_.step;
  outcome.checkpoint = checkpoints_.last();
  outcome.best_score = state_.best_score;
  outcome.best_step = state_.best_step;
  outcome.skipped = state_.skipped;
  if (state_.best_step > 0) outcome.best = setup_.directory->best();
  return outcome;
}

// Above the progress bar, where there is one.
void TrainingRun::log_line(const std::string& line) const {
  progress_ ? progress_->print(line) : setup_.log_line(line);
}

void TrainingRun::write_metrics(std::int64_t step, const Json& line) {
  state_.logged.add(step);
  if (metrics_) metrics_->write(step, line);
  if (events_) events_->write(step, line);
}

}  // namespace comera
