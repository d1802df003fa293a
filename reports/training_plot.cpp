#include "reports/training_plot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "kernels/core/check.h"
#include "reports/metrics_file.h"
#include "reports/plot_colours.h"
#include "storage/folder.h"

namespace comera {

namespace {

using Json = nlohmann::ordered_json;

struct Curves {
  std::vector<PlotPoint> loss, size, target, live, removed;
  std::map<std::string, std::vector<PlotPoint>> held_out;  // by the set's name
  std::vector<PlotSpan> phases;
  double step = 0;  // of the last line of training
};

// A numeric member; NaN, which leaves a gap, for null, which metrics write for non-finite values.
std::optional<double> plotted_number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  return NAN;
}

void add_to(std::vector<PlotPoint>& points, double step, std::optional<double> value) {
  if (value) points.push_back({step, *value});
}

void take_evaluation(Curves& curves, double step, const Json& line) {
  if (const auto loss = plotted_number(line, "validation_loss"))
    curves.held_out["held out"].push_back({step, *loss});
  if (const Json* sets = object_in(line, "validation"))
    for (const auto& [name, scores] : sets->items())
      if (scores.is_object()) add_to(curves.held_out[name], step, plotted_number(scores, "loss"));
}

void take_training(Curves& curves, double step, const Json& line, const std::string& phase) {
  // The last line of a phase is written at its last step.
  if (curves.phases.empty() || curves.phases.back().name != phase)
    curves.phases.push_back({curves.phases.empty() ? 0 : curves.step, phase});
  curves.step = step;
  // A line for steps without targets has no loss, which leaves a gap.
  const std::optional<double> loss = plotted_number(line, "loss");
  add_to(curves.loss, step, loss || !line.contains("targets") ? loss : NAN);
  const Json* ranks = object_in(line, "ranks");
  if (ranks == nullptr) return;
  add_to(curves.size, step, plotted_number(*ranks, "size"));
  // A stage without a target leaves a gap in the curve.
  curves.target.push_back({step, plotted_number(*ranks, "target").value_or(NAN)});
  add_to(curves.live, step, plotted_number(*ranks, "live"));
  add_to(curves.removed, step, plotted_number(*ranks, "removed"));
}

void take(Curves& curves, const Json& line) {
  const double step = line.at("step").get<double>();
  const auto phase = line.find("phase");
  if (phase != line.end() && phase->is_string())
    take_training(curves, step, line, phase->get<std::string>());
  else
    take_evaluation(curves, step, line);
}

Curves read_curves(const std::filesystem::path& path) {
  Curves curves;
  const RunMetrics metrics = read_metrics(path);
  COMERA_CHECK(metrics.first_bad == 0, "{}: line {} is not a line of a run's metrics", path.string(),
               metrics.first_bad);
  for (const Json& line : metrics.lines) take(curves, line);
  if (curves.loss.empty() && curves.held_out.empty())
    throw UsageError(fmt::format("{}: has no losses yet; wait for the run's first line", path.string()));
  return curves;
}

}  // namespace

Plot training_plot(const std::filesystem::path& metrics) {
  const Curves curves = read_curves(metrics);
  Plot plot{.title = storage::last_part(storage::without_last_part(metrics)), .x_title = "step"};
  plot.spans = curves.phases;
  PlotPanel loss{.title = "Loss"};
  if (!curves.loss.empty())
    loss.series.push_back({"training", plot_colours::blue, PlotStyle::line, curves.loss});
  std::size_t set = 0;
  for (const auto& [name, points] : curves.held_out)
    loss.series.push_back({name, plot_colours::beside_blue(set++), PlotStyle::marked, points});
  plot.panels.push_back(std::move(loss));
  if (!curves.size.empty()) {
    PlotPanel size{.title = "Size of the tensor trains, S / S_init", .from_zero = true};
    size.series.push_back({"size", plot_colours::blue, PlotStyle::line, curves.size});
    const auto is_target = [](const PlotPoint& point) { return std::isfinite(point.y); };
    if (std::ranges::any_of(curves.target, is_target))
      size.series.push_back({"target", plot_colours::grey, PlotStyle::dashed, curves.target});
    plot.panels.push_back(std::move(size));
  }
  if (!curves.live.empty()) {
    PlotPanel ranks{.title = "Live ranks and removed layers", .from_zero = true};
    ranks.series.push_back({"live ranks", plot_colours::blue, PlotStyle::line, curves.live});
    ranks.series.push_back({"removed layers", plot_colours::orange, PlotStyle::steps, curves.removed, true});
    plot.panels.push_back(std::move(ranks));
  }
  return plot;
}

}  // namespace comera
