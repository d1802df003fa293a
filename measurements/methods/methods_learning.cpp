#include "measurements/methods/methods_learning.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "reports/plot.h"
#include "reports/plot_colours.h"
#include "storage/durable_file.h"
#include "training/logging/json.h"
#include "training/run/training_run.h"

namespace comera {

namespace {

Recipe run_of(const Method& method, const MethodsLearningOptions& options) {
  Recipe recipe = method.recipe;
  recipe.phases.resize(1);
  PhaseSection& phase = recipe.phases.front();
  phase.steps = options.steps;
  phase.epochs.reset();
  phase.warmup_steps = std::min(phase.warmup_steps, options.steps / 10);
  phase.objective = PhaseObjective::fixed;
  phase.adaptation.reset();
  recipe.run.output = (options.output / method.name).string();
  validate(recipe);
  return recipe;
}

std::filesystem::path settings_file(const Method& method, const MethodsLearningOptions& options) {
  return options.output / (method.name + ".toml");
}

LearningCurve curve_of(const Method& method, const std::filesystem::path& metrics) {
  LearningCurve curve{.name = method.name, .detail = method.detail, .training = {}, .held_out = {}};
  std::ifstream file(metrics);
  std::int64_t step = 0;
  double seconds = 0;
  for (std::string line; std::getline(file, line);) {
    const Json entry = Json::parse(line);
    const auto number = [&](const char* key) {
      const auto found = entry.find(key);
      return found != entry.end() && found->is_number() ? found->get<double>() : NAN;
    };
    const std::int64_t now = entry.at("step").get<std::int64_t>();
    if (const double ms = number("ms_per_step"); std::isfinite(ms)) {
      seconds += ms * 1e-3 * static_cast<double>(now - step);
      step = now;
      curve.training.push_back({now, seconds, number("loss")});
    }
    if (const double loss = number("validation_loss"); std::isfinite(loss))
      curve.held_out.push_back({now, seconds, loss});
  }
  return curve;
}

Json json_of(const std::vector<LearningCurve::Point>& points) {
  Json list = Json::array();
  for (const LearningCurve::Point& point : points) {
    Json entry = {{"step", point.step}, {"seconds", point.seconds}};
    set_if_finite(entry, "loss", point.loss);
    list.push_back(std::move(entry));
  }
  return list;
}

// The curves over steps and over seconds have no common axis: each is a panel over its share of its axis,
// from 0 to 100 % of the longest.
std::string svg_of_learning(const std::vector<LearningCurve>& curves, std::int64_t steps) {
  double longest = 0;
  for (const LearningCurve& curve : curves)
    if (!curve.training.empty()) longest = std::max(longest, curve.training.back().seconds);
  Plot plot{.title = "Loss of training methods on the same encoder and data",
            .x_title = fmt::format("% of {} steps, and of {:.1f} minutes", steps, longest / 60)};
  plot.panels = {{.title = "training loss over steps"}, {.title = "training loss over time"}};
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const PlotSeries named{.name = curves[i].name, .colour = plot_colours::of_curve(i)};
    PlotSeries by_step = named, by_time = named;
    for (const LearningCurve::Point& point : curves[i].training) {
      by_step.points.push_back(
          {100 * static_cast<double>(point.step) / static_cast<double>(steps), point.loss});
      if (longest > 0) by_time.points.push_back({100 * point.seconds / longest, point.loss});
    }
    plot.panels[0].series.push_back(std::move(by_step));
    plot.panels[1].series.push_back(std::move(by_time));
  }
  return svg_of(plot);
}

}  // namespace

void check_learning(const MethodsLearningOptions& options) {
  for (const Method& method : options.methods) {
    const std::string settings = to_toml(run_of(method, options));
    const std::filesystem::path file = settings_file(method, options);
    std::ifstream stream(file);
    const std::string there{std::istreambuf_iterator<char>(stream), {}};
    if (!there.empty() && there != settings)
      throw UsageError(fmt::format("{}: that run was started with other settings; choose another --output",
                                   file.string()));
  }
}

bool learn_methods(const MethodsLearningOptions& options) {
  check_learning(options);
  for (const Method& method : options.methods) {
    const Recipe recipe = run_of(method, options);
    std::filesystem::create_directories(options.output);
    storage::write_file_durably(settings_file(method, options), to_toml(recipe));
    TrainingRun run(recipe, {.finetune = !is_pretraining(recipe.model.head),
                             .mode = RunMode::automatic,
                             .stop_requested = options.stop_requested});
    if (run.finished()) continue;
    if (!run.run().finished) return false;
  }
  return true;
}

std::string report_learning(const MethodsLearningOptions& options) {
  std::vector<LearningCurve> curves;
  Json all = Json::array();
  std::string text = fmt::format("\n{:<14}{:>8}{:>10}{:>16}{:>16}\n", "learning", "steps", "minutes",
                                 "training loss", "held-out loss");
  for (const Method& method : options.methods) {
    curves.push_back(curve_of(method, options.output / method.name / "metrics.jsonl"));
    const LearningCurve& curve = curves.back();
    all.push_back({{"method", curve.name},
                   {"detail", curve.detail},
                   {"training", json_of(curve.training)},
                   {"held_out", json_of(curve.held_out)}});
    if (curve.training.empty()) continue;
    const LearningCurve::Point& last = curve.training.back();
    text += fmt::format("{:<14}{:>8}{:>10.1f}{:>16.4f}", curve.name, last.step, last.seconds / 60, last.loss);
    text += curve.held_out.empty() ? "\n" : fmt::format("{:>16.4f}\n", curve.held_out.back().loss);
  }
  storage::write_file_durably(options.output / "learning.json", json_text(all) + "\n");
  storage::write_file_durably(options.output / "learning.svg", svg_of_learning(curves, options.steps));
  return text;
}

}  // namespace comera
