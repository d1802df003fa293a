#include "training/rates/rate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "optim/learning_rates.h"
#include "reports/plot_colours.h"

namespace comera {

namespace {

constexpr std::int64_t few_steps = 150;

// The losses of trials that ran to their end.
struct Range {
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
};
Range range_of(const RateReport& report) {
  Range range;
  for (const RateCurve& curve : report.curves)
    for (const RateTrial& trial : curve.trials)
      if (std::isfinite(trial.loss) && trial.steps >= report.steps) {
        range.lowest = std::min(range.lowest, trial.loss);
        range.highest = std::max(range.highest, trial.loss);
      }
  return range;
}

// "  1.2e-03  5.9123  ######": the longer the bar, the lower the loss; the worst of all has the shortest.
std::string line_of(const RateTrial& trial, double rate, const Range& range, const RateReport& report,
                    const std::string& mark) {
  if (!std::isfinite(trial.loss)) return fmt::format("  {:<9.2g} diverged", rate);
  if (trial.steps < report.steps)
    return fmt::format("  {:<9.2g} stopped after {} steps with loss {:.4f}", rate, trial.steps, trial.loss);
  constexpr double width = 40;
  const double share =
      range.highest > range.lowest ? (range.highest - trial.loss) / (range.highest - range.lowest) : 1;
  const std::string bar(static_cast<std::size_t>(std::lround(1 + width * std::clamp(share, 0., 1.))), '#');
  return fmt::format("  {:<9.2g} {:.4f} {}{}", rate, trial.loss, bar, mark);
}

}  // namespace

std::string describe(const RateReport& report) {
  if (report.stopped && report.curves.empty())
    return "stopped before the first trial ended: no recommendation\n";
  const Range range = range_of(report);
  double lowest = std::numeric_limits<double>::infinity();
  for (const RateCurve& curve : report.curves)
    for (const RateTrial& trial : curve.trials) lowest = std::min(lowest, trial.loss);
  const bool advises = !report.stopped && report.start_loss - lowest >= report.least_gain * report.unit;
  std::string text = fmt::format("loss over the last fifth of {} steps, by learning rate\n", report.steps);
  for (const RateCurve& curve : report.curves) {
    const RateKind* kind = rate_kind(curve.name);
    text +=
        kind != nullptr ? fmt::format("{}\n", curve.name) : "all kinds together, by the rate of `other`\n";
    const std::string mark = !advises                                      ? " <- best"
                             : kind == nullptr && report.curves.size() > 1 ? " <- each kind begins here"
                                                                           : " <- advised";
    for (std::size_t i = 0; i < curve.trials.size(); ++i)
      text += line_of(curve.trials[i], rate_of(curve.trials[i].rates, kind), range, report,
                      i == curve.chosen ? mark : "") +
              "\n";
  }
  if (report.stopped) return text + "stopped before all trials ran: no recommendation\n";
  if (!advises) return text + "the trials are too short to compare learning rates: raise --minutes\n";
  if (report.steps < few_steps)
    text += fmt::format(
        "trials of fewer than {} steps show only the start of training: raise --minutes before you rely on "
        "this\n",
        few_steps);
  text += fmt::format(
      "differences of less than {:.2g}{} do not count: of rates as good as the best, the one nearest to the "
      "recipe's is advised\n",
      rate_noise * report.unit, report.unit == 1 ? " nats" : "");
  for (const std::string& name : report.lowered)
    text += fmt::format(
        "the recommended rate of {} is 1.4 times below the best trial's, because twice that is much worse\n",
        name);
  return text + fmt::format("advised  --set 'phase.0.learning_rate={{{}}}'\n", report.advised.text(" = "));
}

Plot plot_of(const RateReport& report, const LearningRates& recipe) {
  // The first curve is for all kinds together.
  constexpr const char* colours[] = {plot_colours::grey, plot_colours::blue, plot_colours::purple,
                                     plot_colours::green, plot_colours::orange};
  Plot plot{.title = fmt::format("Loss by learning rate, trials of {} steps", report.steps),
            .x_title = "learning rate relative to the recipe's, as a power of two"};
  plot.panels.push_back({.title = "Loss over a trial's last fifth"});
  for (std::size_t i = 0; i < report.curves.size(); ++i) {
    const RateCurve& curve = report.curves[i];
    const RateKind* kind = rate_kind(curve.name);
    PlotSeries series{
        .name = curve.name, .colour = colours[i % std::size(colours)], .style = PlotStyle::marked};
    for (const RateTrial& trial : curve.trials)
      series.points.push_back({std::log2(rate_of(trial.rates, kind) / rate_of(recipe, kind)), trial.loss});
    plot.panels[0].series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace comera
