#include "training/rates/rate_search.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "kernels/core/console.h"
#include "optim/learning_rates.h"
#include "training/rates/rate_trials.h"

namespace comera {

namespace {

// In units of the loss: a rate is too high if the loss at twice that rate is worse by more than this.
constexpr double cliff = 0.3;

constexpr double least_gain_of_tasks = 0.02;  // a class is worth less than a piece

// The best of the trials on a line of rates, and the trials.
class LineSearch {
 public:
  using Scale = std::function<LearningRates(double factor)>;
  using Run = std::function<RateTrial(const LearningRates&)>;
  // unit: of losses that are compared.
  LineSearch(double unit, Scale scale, Run run)
      : unit_(unit), scale_(std::move(scale)), run_(std::move(run)) {}

  // Searches in factors of four over a wide range, because far beyond the best rate all are equally bad, then
  // in factors of two.
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
  // Doubles, or else halves, as long as that improves the result.
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
    return next != trials_.end() && next->second.loss > best().loss + cliff * unit_;
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
    const bool better = power != best_ && trial.loss < best().loss - rate_noise * unit_;
    if (better || trials_.size() == 1) best_ = power;
    return better;
  }

  double unit_;
  Scale scale_;
  Run run_;
  std::map<int, RateTrial> trials_;  // by the power of two
  int best_ = 0;
};

// Searches one kind after the other; the report contains the trials so far even if they are stopped.
class Search {
 public:
  Search(const Recipe& recipe, const RateSearchOptions& options)
      : given_(recipe.phases[0].learning_rate), output_(options.output), trials_(recipe, options) {
    if (options.finetune) report_.least_gain = least_gain_of_tasks;
    report_.unit = trials_.loss_unit();
    if (rate_of(given_, nullptr) == 0)
      throw UsageError(
          "--find-rate searches around the recipe's rates, but phase.0.learning_rate is 0; set it, for "
          "instance to 1e-3");
  }

  RateReport run() {
    try {
      search();
    } catch (const RateTrials::Stopped&) {
      report_.stopped = true;
    }
    return report_;
  }

 private:
  void search() {
    trials_.choose_steps();
    report_.steps = trials_.steps();
    log_to(output_, "trials of {} steps, all from the same weights over the same batches\n", report_.steps);
    LineSearch together(
        report_.unit, [&](double factor) { return scaled(given_, nullptr, factor); }, runner());
    take("all", together, [](LineSearch& line) { line.scan(); });
    RateTrial best = together.best();
    if (!std::isfinite(best.loss))
      throw Error(
          "all trials diverged, even with rates 4,096 times below the recipe's, so the rates are not the "
          "cause; check the data, optim.eps and optim.beta2");
    report_.advised = best.rates;
    for (const RateKind& kind : rate_kinds) {
      if (rate_of(best.rates, kind) == 0 || !trials_.has(kind)) continue;
      LineSearch alone(
          report_.unit, [&](double factor) { return scaled(best.rates, &kind, factor); }, runner());
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
      log_to(output_, "trial {}: {}: {}\n", ++number_, rates.text(), outcome_of(trial));
      if (std::isfinite(trial.loss)) report_.start_loss = trials_.start_loss();
      return trial;
    };
  }

  template <class Body>
  void take(const char* name, LineSearch& line, const Body& body) {
    try {
      body(line);
    } catch (const RateTrials::Stopped&) {
      if (!line.empty()) report_.curves.push_back(line.curve(name));
      throw;
    }
    report_.curves.push_back(line.curve(name));
  }

  void advise(const RateKind& kind, const RateTrial& best, bool at_cliff) {
    LearningRates& advised = report_.advised;
    advised = scaled(advised, &kind, rate_of(best.rates, kind) / rate_of(advised, kind));
    if (!at_cliff) return;
    advised = scaled(advised, &kind, 1 / std::sqrt(2.));
    report_.lowered.emplace_back(kind.name);
  }

  LearningRates given_;
  std::FILE* output_;
  RateTrials trials_;
  RateReport report_;
  int number_ = 0;
};

}  // namespace

RateReport find_rates(const Recipe& recipe, const RateSearchOptions& options) {
  if (!options.finetune) require_pretraining_keys(recipe);
  return Search(recipe, options).run();
}

}  // namespace comera
