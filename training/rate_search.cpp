#include "training/rate_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "checkpoints/model_state.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "model/encoder_packs.h"
#include "training/checkpoint_recipe.h"
#include "training/masked_language_task.h"
#include "training/phase.h"
#include "training/progress.h"
#include "training/trained_model.h"

namespace comera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t fewest_steps = 50, most_steps = 2000;
constexpr int expected_trials = 14;
constexpr double noise = 0.01;      // nats by which a trial must be better to count as better
constexpr double cliff = 0.3;       // nats by which twice a rate is worse where it is too near to the edge
constexpr double too_little = 0.5;  // nats that must have been learnt in the best trial
constexpr std::int64_t few_steps = 150;
constexpr double hopeless = 1;  // nats above the best trial at the same step: not gone on with

struct Kind {
  const char* name;
  RateGroup group;
};
constexpr Kind kinds[] = {{"cores", RateGroup::core},
                          {"embedding", RateGroup::embedding},
                          {"gates", RateGroup::gate},
                          {"rest", RateGroup::dense}};

// The rate of a kind; 0: there is none of its own.
double rate_of(const LearningRates& rates, const Kind& kind) {
  switch (kind.group) {
    case RateGroup::core:
      return rates.cores;
    case RateGroup::gate:
      return rates.gates;
    case RateGroup::dense:
      return rates.rest;
    case RateGroup::embedding:
      return rates.embedding.value_or(0);
  }
  return 0;
}

// With that of one kind, or without one all of them, times a factor.
LearningRates scaled(LearningRates rates, const Kind* kind, double factor) {
  const auto scales = [&](RateGroup group) { return kind == nullptr || kind->group == group; };
  if (scales(RateGroup::core)) rates.cores *= factor;
  if (scales(RateGroup::gate)) rates.gates *= factor;
  if (scales(RateGroup::dense)) rates.rest *= factor;
  if (scales(RateGroup::embedding) && rates.embedding) *rates.embedding *= factor;
  return rates;
}

struct Stopped {};

double mean(const std::vector<double>& losses, std::size_t first, std::size_t last) {
  double sum = 0;
  for (std::size_t i = first; i < last; ++i) sum += losses[i];
  return sum / static_cast<double>(std::max<std::size_t>(last - first, 1));
}

// What all trials share.
class Trials {
 public:
  Trials(const Recipe& recipe, const RateSearchOptions& options)
      : options_(options),
        recipe_(with_initial_ranks(recipe)),
        tokenizer_(data::Tokenizer::load(recipe.data.tokenizer)),
        config_(encoder_config(recipe_, tokenizer_.vocabulary())),
        processor_(
            find_processor(recipe.run.device, recipe.precision.activations(), recipe.precision.operands())),
        task_(recipe.data, tokenizer_, config_),
        steps_(options.steps) {
    require_masked_language_head(config_);
    task_.require_masks_to_draw(recipe_.phases);
    if (!recipe.run.initial_checkpoint.empty())
      require_same_tokenizer(CheckpointReader(find_trained_model(recipe.run.initial_checkpoint).checkpoint),
                             tokenizer_, recipe.data.tokenizer);
    prepare_threads(static_cast<int>(recipe.run.threads));
    processor_.graphs = recipe.run.graphs;
  }

  bool has(const Kind& kind) {
    const ParameterStore& parameters = store();
    const bool own = recipe_.phases[0].learning_rate.embedding.has_value();
    for (const ParameterId id : parameters.layout()) {
      const ParameterInfo& info = parameters.info(id);
      if (group_of(info, recipe_.optim) == kind.group) return true;
      if (kind.group == RateGroup::core && info.embedding && !own) return true;
    }
    return false;
  }
  std::int64_t steps() const { return steps_; }
  double start_loss() const { return best_.front(); }

  // By the time that a few steps take.
  void choose_steps() {
    if (steps_ > 0) return;
    constexpr std::int64_t timed = 10;
    start();
    data::Loader loader(task_.samples(recipe_.phases[0].length), loader_options(recipe_, 0, task_, *model_));
    one_step(loader, 0, {});
    const auto began = Clock::now();
    for (std::int64_t step = 1; step <= timed; ++step) one_step(loader, step, {});
    steps_ = steps_that_fit(std::chrono::duration<double>(Clock::now() - began).count() / timed);
  }

  RateTrial run(const LearningRates& rates) {
    start();
    RateTrial trial{.rates = rates, .loss = infinity};
    const PhaseSection& phase = recipe_.phases[0];
    data::Loader loader(task_.samples(phase.length), loader_options(recipe_, 0, task_, *model_));
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
          "no token was masked in {} steps: make phase.0.tokens_per_pack or {}.mask_probability larger",
          trial.steps, phase.mask_probability ? "phase.0" : "data"));
    trial.loss = mean(losses, losses.size() - std::max<std::size_t>(losses.size() / 5, 1), losses.size());
    if (trial.steps == steps_ && (best_.empty() || trial.loss < best_loss_)) {
      best_ = losses;
      best_loss_ = trial.loss;
    }
    return trial;
  }

 private:
  static Recipe with_initial_ranks(Recipe recipe) {
    if (!recipe.run.initial_checkpoint.empty())
      take_ranks(recipe, CheckpointReader(find_trained_model(recipe.run.initial_checkpoint).checkpoint));
    return recipe;
  }

  ParameterStore& store() {
    if (!engine_) start();
    return engine_->model().parameters();
  }

  // The weights that every trial begins with, and an optimizer that has seen nothing.
  void start() {
    engine_.reset();
    model_.reset();  // there may be no memory for two
    model_ = std::make_unique<Model>(config_, processor_.allocator, true);
    engine_ = std::make_unique<StepEngine>(*model_, recipe_.optim, processor_);
    engine_->model().parameters().initialize(static_cast<std::uint64_t>(recipe_.run.seed));
    if (!recipe_.run.initial_checkpoint.empty()) {
      const CheckpointReader reader(find_trained_model(recipe_.run.initial_checkpoint).checkpoint);
      require_same_encoder(recipe_, reader);
      load_initial_parameters(reader, engine_->model().parameters());
    }
    engine_->set_packs(EncoderPacks(*model_, loader_options(recipe_, 0, task_, *model_).capacity));
  }

  // The loss; none where no token of the batch was masked.
  std::optional<double> one_step(data::Loader& loader, std::int64_t step, const LearningRates& highest) {
    if (options_.stop_requested && options_.stop_requested()) throw Stopped();
    engine_->clear_results();
    double targets = 0;
    for (std::int64_t pack = 0; pack < recipe_.phases[0].packs_per_step; ++pack) {
      const data::Batch& batch = loader.next();
      engine_->load(batch.block());
      engine_->micro({.seed = static_cast<std::uint64_t>(recipe_.run.seed),
                      .step = static_cast<std::uint32_t>(step),
                      .pack = static_cast<std::uint32_t>(pack)},
                     pack + 1 == recipe_.phases[0].packs_per_step);
      targets += static_cast<double>(task_.targets(batch));
    }
    const Schedule schedule{.kind = ScheduleKind::linear,
                            .steps = steps_,
                            .warmup_steps = std::max<std::int64_t>(steps_ / 10, 1)};
    const double factor = schedule.factor(step);
    engine_->apply(step, targets, step_rates(highest, factor), recipe_.optim.clip_norm);
    if (recipe_.lte && (step + 1) % recipe_.lte->merge_steps == 0) engine_->merge_adapters();
    const StepResults& results = engine_->results();
    if (results.nonfinite != 0) return NAN;
    if (results.target_count == 0) return std::nullopt;
    return results.loss_sum / results.target_count;
  }

  std::int64_t steps_that_fit(double seconds) const {
    const auto steps = static_cast<std::int64_t>(options_.minutes * 60 / seconds / expected_trials);
    if (steps < fewest_steps)
      throw UsageError(fmt::format(
          "--find-rate: a step takes {:.2f} s here, so that {} trials of {} steps take {:.0f} minutes and "
          "more "
          "than --minutes {:g}; give so many, or make phase.0.packs_per_step smaller for the search",
          seconds, expected_trials, fewest_steps,
          std::ceil(seconds * expected_trials * static_cast<double>(fewest_steps) / 60), options_.minutes));
    return std::min(steps, most_steps);
  }

  // Looked at from a third of the steps on.
  bool is_hopeless(const std::vector<double>& losses, std::int64_t step) const {
    if (best_.empty() || step + 1 < steps_ / 3) return false;
    const std::size_t window = std::max<std::size_t>(losses.size() / 5, 5), end = losses.size();
    const std::size_t first = end > window ? end - window : 0;
    return mean(losses, first, end) > mean(best_, first, end) + hopeless;
  }

  RateSearchOptions options_;
  Recipe recipe_;
  data::Tokenizer tokenizer_;
  EncoderConfig config_;
  Processor processor_;
  MaskedLanguageTask task_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<StepEngine> engine_;  // of the model
  std::int64_t steps_;
  std::vector<double> best_;  // losses of the best trial, by step
  double best_loss_ = infinity;
};

// The best of the trials on a line of rates, and the trials.
class LineSearch {
 public:
  using Scale = std::function<LearningRates(double factor)>;
  using Run = std::function<RateTrial(const LearningRates&)>;
  LineSearch(Scale scale, Run run) : scale_(std::move(scale)), run_(std::move(run)) {}

  // In factors of four over a wide range, since far beyond the best rate all are as bad, then of two.
  void scan() {
    best_ = 0;
    for (const int power : {0, -2, -4, 2}) take(power);
    while ((best_ == trials_.begin()->first || !std::isfinite(best().loss)) &&
           trials_.begin()->first > lowest)
      take(trials_.begin()->first - 2);
    if (!std::isfinite(best().loss)) return;
    while (best_ == trials_.rbegin()->first && best_ < highest) take(best_ + 2);
    const int coarse = best_;
    take(coarse + 1);
    take(coarse - 1);
  }
  // Doubles, or else halves, as long as it is worth it.
  void search(const RateTrial& start) {
    trials_[0] = start;
    best_ = 0;
    while (best_ < 3 && take(best_ + 1)) {
    }
    while (best_ <= 0 && best_ > -3 && take(best_ - 1)) {
    }
  }

  bool empty() const { return trials_.empty(); }
  const RateTrial& best() const { return trials_.at(best_); }
  // Whether twice the best rate is much worse.
  bool is_at_cliff() const {
    const auto next = trials_.find(best_ + 1);
    return next != trials_.end() && next->second.loss > best().loss + cliff;
  }
  RateCurve curve(const std::string& name) const {
    RateCurve curve{.name = name, .trials = {}};
    for (const auto& [power, trial] : trials_) {
      if (power == best_) curve.chosen = curve.trials.size();
      curve.trials.push_back(trial);
    }
    return curve;
  }

 private:
  static constexpr int lowest = -12, highest = 12;

  // Whether the trial is better than the best so far.
  bool take(int power) {
    const RateTrial& trial = trials_[power] = run_(scale_(std::exp2(power)));
    const bool better = power != best_ && trial.loss < best().loss - noise;
    if (better || trials_.size() == 1) best_ = power;
    return better;
  }

  Scale scale_;
  Run run_;
  std::map<int, RateTrial> trials_;  // by the power of two
  int best_ = 0;
};

// The rate of a kind, or of all together the first that is not 0.
double rate_of(const LearningRates& rates, const Kind* kind) {
  if (kind != nullptr) return rate_of(rates, *kind);
  for (const double rate : {rates.rest, rates.cores, rates.gates, rates.embedding.value_or(0)})
    if (rate > 0) return rate;
  return 0;
}

// "  1.2e-03  5.9123  ######", the longer the bar the lower the loss.
std::string line_of(const RateTrial& trial, double rate, double lowest, const RateReport& report,
                    bool chosen) {
  if (!std::isfinite(trial.loss)) return fmt::format("  {:<9.2g} diverged", rate);
  if (trial.steps < report.steps)
    return fmt::format("  {:<9.2g} given up after {} steps with loss {:.4f}", rate, trial.steps, trial.loss);
  constexpr double width = 40;
  const double share =
      report.start_loss > lowest ? (report.start_loss - trial.loss) / (report.start_loss - lowest) : 1;
  const std::string bar(static_cast<std::size_t>(std::lround(1 + width * std::clamp(share, 0., 1.))), '#');
  return fmt::format("  {:<9.2g} {:.4f} {}{}", rate, trial.loss, bar, chosen ? " best" : "");
}

const Kind* kind_of(const std::string& name) {
  const auto* found = std::ranges::find_if(kinds, [&](const Kind& kind) { return name == kind.name; });
  return found == std::end(kinds) ? nullptr : found;
}

// One line after the other; what trials had found is in the report also when they are stopped.
class Search {
 public:
  Search(const Recipe& recipe, const RateSearchOptions& options)
      : given_(recipe.phases[0].learning_rate), output_(options.output), trials_(recipe, options) {
    if (rate_of(given_, nullptr) == 0)
      throw UsageError(
          "--find-rate looks around the recipe's rates, and phase.0.learning_rate is 0; give some, such as "
          "1e-3");
  }

  RateReport run() {
    try {
      search();
    } catch (const Stopped&) {
      report_.stopped = true;
    }
    return report_;
  }

 private:
  void search() {
    trials_.choose_steps();
    report_.steps = trials_.steps();
    say_to(output_, "trials of {} steps, all from the same weights over the same batches\n", report_.steps);
    LineSearch together([&](double factor) { return scaled(given_, nullptr, factor); }, runner());
    take("all", together, [](LineSearch& line) { line.scan(); });
    RateTrial best = together.best();
    if (!std::isfinite(best.loss))
      throw Error(
          "all trials diverged, also with rates 4,096 times below the recipe's: the rates are not at fault; "
          "look at the data, optim.eps and optim.beta2");
    report_.advised = best.rates;
    for (const Kind& kind : kinds) {
      if (rate_of(best.rates, kind) == 0 || !trials_.has(kind)) continue;
      LineSearch alone([&](double factor) { return scaled(best.rates, &kind, factor); }, runner());
      take(kind.name, alone, [&](LineSearch& line) { line.search(best); });
      best = alone.best();
      advise(kind, best, alone.is_at_cliff());
    }
  }

  static std::string outcome_of(const RateTrial& trial) {
    return std::isfinite(trial.loss) ? fmt::format("loss {:.4f}", trial.loss) : "diverged";
  }

  LineSearch::Run runner() {
    return [this](const LearningRates& rates) {
      RateTrial trial = trials_.run(rates);
      say_to(output_, "trial {}: {}: {}\n", ++number_, rates.text(), outcome_of(trial));
      if (std::isfinite(trial.loss)) report_.start_loss = trials_.start_loss();
      return trial;
    };
  }

  template <class Body>
  void take(const char* name, LineSearch& line, const Body& body) {
    try {
      body(line);
    } catch (const Stopped&) {
      if (!line.empty()) report_.curves.push_back(line.curve(name));
      throw;
    }
    report_.curves.push_back(line.curve(name));
  }

  void advise(const Kind& kind, const RateTrial& best, bool at_cliff) {
    LearningRates& advised = report_.advised;
    advised = scaled(advised, &kind, rate_of(best.rates, kind) / rate_of(advised, kind));
    if (!at_cliff) return;
    advised = scaled(advised, &kind, 1 / std::sqrt(2.));
    report_.lowered.emplace_back(kind.name);
  }

  LearningRates given_;
  std::FILE* output_;
  Trials trials_;
  RateReport report_;
  int number_ = 0;
};

}  // namespace

RateReport find_rates(const Recipe& recipe, const RateSearchOptions& options) {
  require_pretraining_keys(recipe);
  return Search(recipe, options).run();
}

std::string describe(const RateReport& report) {
  if (report.stopped && report.curves.empty())
    return "stopped before the first trial had ended: there is no advice\n";
  double lowest = infinity;
  for (const RateCurve& curve : report.curves)
    for (const RateTrial& trial : curve.trials) lowest = std::min(lowest, trial.loss);
  std::string text = fmt::format("loss over the last fifth of {} steps, by rate\n", report.steps);
  for (const RateCurve& curve : report.curves) {
    const Kind* kind = kind_of(curve.name);
    text +=
        kind != nullptr ? fmt::format("{}\n", curve.name) : "all kinds together, by the rate of the rest\n";
    for (std::size_t i = 0; i < curve.trials.size(); ++i)
      text +=
          line_of(curve.trials[i], rate_of(curve.trials[i].rates, kind), lowest, report, i == curve.chosen) +
          "\n";
  }
  if (report.stopped) return text + "stopped before all trials had run: there is no advice\n";
  if (report.start_loss - lowest < too_little)
    return text + "the trials are too short to tell rates apart: give more --minutes\n";
  if (report.steps < few_steps)
    text += fmt::format(
        "trials of fewer than {} steps see only how a model begins: give more --minutes before you rely on "
        "this\n",
        few_steps);
  for (const std::string& name : report.lowered)
    text += fmt::format(
        "the rate of {} is advised 1.4 times below the best trial's: twice that is much worse\n", name);
  return text + fmt::format("advised  --set 'phase.0.learning_rate={{{}}}'\n", report.advised.text(" = "));
}

Plot plot_of(const RateReport& report, const LearningRates& recipe) {
  constexpr const char* colours[] = {"#707070", "#0072b2", "#cc79a7", "#009e73", "#d55e00"};
  Plot plot{.title = fmt::format("Loss over learning rates, trials of {} steps", report.steps),
            .x_title = "powers of two of the recipe's rates"};
  plot.panels.push_back({.title = "Loss over a trial's last fifth, nats"});
  for (std::size_t i = 0; i < report.curves.size(); ++i) {
    const RateCurve& curve = report.curves[i];
    const Kind* kind = kind_of(curve.name);
    PlotSeries series{
        .name = curve.name, .colour = colours[i % std::size(colours)], .style = PlotStyle::marked};
    for (const RateTrial& trial : curve.trials)
      series.points.push_back({std::log2(rate_of(trial.rates, kind) / rate_of(recipe, kind)), trial.loss});
    plot.panels[0].series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace comera
