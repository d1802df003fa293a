#include "training/rates/rate_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "checkpoints/model_state.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "model/encoder_micro_batches.h"
#include "recipes/encoder_config.h"
#include "training/inference/trained_model.h"
#include "training/logging/progress.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/resume/checkpoint_tokenizer.h"
#include "training/tasks/make_encoder_task.h"
#include "training/tasks/sequence_task.h"

namespace comera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t fewest_steps = 50, most_steps = 2000;
constexpr int expected_trials = 14;
constexpr double hopeless = 1;  // units of loss above the best trial at the same step: the trial is abandoned

double mean(const std::vector<double>& losses, std::size_t first, std::size_t last) {
  double sum = 0;
  for (std::size_t i = first; i < last; ++i) sum += losses[i];
  return sum / static_cast<double>(std::max<std::size_t>(last - first, 1));
}

Recipe recipe_of_trials(const Recipe& given, bool finetune) {
  Recipe recipe = finetune ? resolve_task(given) : resolve_distillation(given);
  if (!recipe.run.initial_checkpoint.empty())
    take_ranks(recipe, *find_trained_model(recipe.run.initial_checkpoint).reader);
  return recipe;
}

}  // namespace

RateTrials::RateTrials(const Recipe& recipe, const RateSearchOptions& options)
    : options_(options),
      recipe_(recipe_of_trials(recipe, options.finetune)),
      tokenizer_(load_tokenizer(recipe.data.tokenizer)),
      config_(encoder_config(recipe_, tokenizer_.vocabulary())),
      processor_(
          find_processor(recipe.run.device, recipe.precision.activations(), recipe.precision.operands())),
      task_(make_encoder_task(recipe_, options.finetune, tokenizer_, config_,
                              [&](const std::string& line) { log_to(options.output, "{}\n", line); })),
      steps_(options.steps) {
  if (!recipe.run.initial_checkpoint.empty())
    require_same_tokenizer(*find_trained_model(recipe.run.initial_checkpoint).reader, tokenizer_,
                           recipe.data.tokenizer);
  task_->set_teacher(find_teacher(recipe_, tokenizer_, config_, processor_));
  prepare_threads(static_cast<int>(recipe.run.threads));
  processor_.graphs = recipe.run.graphs;
}

bool RateTrials::has(const RateKind& kind) {
  const ParameterStore& parameters = store();
  const bool own = recipe_.phases[0].learning_rate.embedding.has_value();
  for (const ParameterId id : parameters.layout()) {
    const ParameterInfo& info = parameters.info(id);
    if (group_of(info, recipe_.optim) == kind.group) return true;
    if (kind.group == RateGroup::core && info.embedding && !own) return true;
  }
  return false;
}

// Chooses by the time that a few steps take.
void RateTrials::choose_steps() {
  if (steps_ > 0) return;
  constexpr std::int64_t timed = 10;
  start();
  data::Loader loader(task_->training_samples(recipe_.phases[0].length),
                      loader_options(recipe_, 0, *task_, *model_));
  one_step(loader, 0, {});
  const auto began = Clock::now();
  for (std::int64_t step = 1; step <= timed; ++step) one_step(loader, step, {});
  steps_ = steps_that_fit(std::chrono::duration<double>(Clock::now() - began).count() / timed);
}

RateTrial RateTrials::run(const LearningRates& rates) {
  start();
  RateTrial trial{.rates = rates, .loss = infinity};
  const PhaseSection& phase = recipe_.phases[0];
  data::Loader loader(task_->training_samples(phase.length), loader_options(recipe_, 0, *task_, *model_));
  std::vector<double> losses;
  for (std::int64_t step = 0; step < steps_; ++step) {
    const std::optional<double> loss = one_step(loader, step, rates);
    trial.steps = step + 1;
    if (!loss) continue;
    if (!std::isfinite(*loss)) return trial;
    losses.push_back(*loss);
    if (is_hopeless(losses, step)) break;
  }
  if (losses.empty())
    throw UsageError(fmt::format(
        "no token was masked in {} steps: make phase.0.tokens_per_micro_batch or {}.mask_probability larger",
        trial.steps, phase.mask_probability ? "phase.0" : "data"));
  trial.loss = mean(losses, losses.size() - std::max<std::size_t>(losses.size() / 5, 1), losses.size());
  if (trial.steps == steps_ && (best_.empty() || trial.loss < best_loss_)) {
    best_ = losses;
    best_loss_ = trial.loss;
  }
  return trial;
}

ParameterStore& RateTrials::store() {
  if (!engine_) start();
  return engine_->model().parameters();
}

// The initial weights of every trial, and a fresh optimizer.
void RateTrials::start() {
  engine_.reset();
  model_.reset();  // there may not be memory for two
  model_ = std::make_unique<Model>(config_, processor_.allocator, true);
  engine_ = std::make_unique<StepEngine>(*model_, recipe_.optim, processor_);
  engine_->model().parameters().initialize(static_cast<std::uint64_t>(recipe_.run.seed));
  if (!recipe_.run.initial_checkpoint.empty()) {
    const TrainedModel trained = find_trained_model(recipe_.run.initial_checkpoint);
    const CheckpointReader& reader = *trained.reader;
    require_same_encoder(recipe_, reader);
    initialise_from(reader, recipe_, engine_->model().parameters());
  }
  engine_->set_micro_batches(
      EncoderMicroBatches(*model_, loader_options(recipe_, 0, *task_, *model_).capacity, task_->teacher()));
}

// The loss; none if no token of the batch was masked.
std::optional<double> RateTrials::one_step(data::Loader& loader, std::int64_t step,
                                           const LearningRates& highest) {
  if (options_.stop_requested && options_.stop_requested()) throw Stopped();
  engine_->clear_results();
  double targets = 0;
  for (std::int64_t micro_batch = 0; micro_batch < recipe_.phases[0].micro_batches_per_step; ++micro_batch) {
    const data::Batch& batch = loader.next();
    engine_->load(batch.block());
    engine_->micro({.seed = static_cast<std::uint64_t>(recipe_.run.seed),
                    .step = static_cast<std::uint32_t>(step),
                    .micro_batch = static_cast<std::uint32_t>(micro_batch)},
                   micro_batch + 1 == recipe_.phases[0].micro_batches_per_step);
    targets += task_->targets(batch);
  }
  const Schedule schedule{
      .kind = ScheduleKind::linear, .steps = steps_, .warmup_steps = std::max<std::int64_t>(steps_ / 10, 1)};
  const double factor = schedule.factor(step);
  engine_->apply(step, targets, StepRates(highest, factor), recipe_.optim.clip_norm);
  if (recipe_.lte && (step + 1) % recipe_.lte->merge_steps == 0) engine_->consolidate();
  const StepResults& results = engine_->results();
  if (results.nonfinite != 0) return NAN;
  if (results.target_count == 0) return std::nullopt;
  return task_->loss_scale() * results.loss_sum / results.target_count;
}

std::int64_t RateTrials::steps_that_fit(double seconds) const {
  const auto steps = static_cast<std::int64_t>(options_.minutes * 60 / seconds / expected_trials);
  if (steps < fewest_steps)
    throw UsageError(fmt::format(
        "--find-rate: a step takes {:.2f} s here, so {} trials of {} steps take {:.0f} minutes, more than "
        "--minutes {:g}; raise it, or lower phase.0.micro_batches_per_step for the search",
        seconds, expected_trials, fewest_steps,
        std::ceil(seconds * expected_trials * static_cast<double>(fewest_steps) / 60), options_.minutes));
  return std::min(steps, most_steps);
}

// Checked after a third of the steps.
bool RateTrials::is_hopeless(const std::vector<double>& losses, std::int64_t step) const {
  if (best_.empty() || step + 1 < steps_ / 3) return false;
  const std::size_t window = std::max<std::size_t>(losses.size() / 5, 5), end = losses.size();
  const std::size_t first = end > window ? end - window : 0;
  return mean(losses, first, end) > mean(best_, first, end) + hopeless * loss_unit();
}

}  // namespace comera
