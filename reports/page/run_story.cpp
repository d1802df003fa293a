#include "reports/page/run_story.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "reports/metrics_file.h"

namespace comera {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_points = 500;

void take_peaks(Story& story, const Json& memory) {
  for (const auto& [kind, bytes] : memory.items()) {
    if (!bytes.is_number()) continue;
    const auto known = std::ranges::find(story.peak_memory, kind, &std::pair<std::string, double>::first);
    if (known == story.peak_memory.end())
      story.peak_memory.emplace_back(kind, bytes.template get<double>());
    else
      known->second = std::max(known->second, bytes.template get<double>());
  }
}

}  // namespace

std::optional<double> number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

namespace {

double score_of(const Json& evaluation) {
  return number_in(evaluation, "score").value_or(-std::numeric_limits<double>::infinity());
}

bool is_start(const Json& evaluation) { return evaluation["step"].get<double>() == 0; }

}  // namespace

Story story_of(const std::vector<Json>& metrics) {
  Story story;
  Json phase;
  for (const Json& line : metrics) {
    const double step = line["step"].get<double>();
    if (is_training(line)) {
      if (phase != line["phase"]) story.best_loss.reset();
      phase = line["phase"];
      story.hours += (step - story.steps) * number_in(line, "ms_per_step").value_or(0) / 3.6e6;
      story.steps = step;
      story.training = &line;
    } else if (is_evaluation(line)) {
      story.evaluation = &line;
      // Of equal scores the first, as runs keep it, which do not keep the start; without scores the last
      // evaluation.
      const bool scored = number_in(line, "score").has_value();
      if (story.best == nullptr || is_start(*story.best) || score_of(line) > score_of(*story.best) ||
          (!scored && score_of(line) == score_of(*story.best)))
        story.best = &line;
      if (const auto loss = number_in(line, "validation_loss"))
        story.best_loss = std::min(story.best_loss.value_or(*loss), *loss);
    }
    if (const Json* memory = object_in(line, "peak_memory")) take_peaks(story, *memory);
    for_each_number(line, [&](const std::string& name, double value) {
      story.series[name].push_back({step, story.hours, value});
    });
  }
  const bool is_of_task = std::ranges::any_of(
      story.series, [](const auto& series) { return series.first.starts_with("validation/"); });
  if (auto loss = story.series.extract("loss"); is_of_task && loss) {
    loss.key() = "task/loss";
    story.series.insert(std::move(loss));
  } else if (loss) {
    story.series.insert(std::move(loss));
  }
  return story;
}

double rounded(double value) { return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr); }

Json points_of(const std::vector<Point>& points) {
  Json list = Json::array();
  const std::size_t together = (points.size() + most_points - 1) / most_points;
  for (std::size_t begin = 0; begin < points.size(); begin += together) {
    const std::size_t end = std::min(begin + together, points.size());
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += points[i].value;
    const Point& last = points[end - 1];
    list.push_back({last.step, rounded(last.hours), rounded(sum / static_cast<double>(end - begin))});
  }
  return list;
}

}  // namespace comera
