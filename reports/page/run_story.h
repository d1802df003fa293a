#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace comera {

// What a run's lines of metrics say, as a report shows it.

struct Point {
  double step = 0, hours = 0, value = 0;
};
using Series = std::map<std::string, std::vector<Point>>;

// The data of a run's lines over its steps and hours. The lines must outlive it.
struct Story {
  Series series;  // "loss"; "task/loss" for a fine-tuning's, which compares with no pretraining's
  double steps = 0, hours = 0;
  const nlohmann::ordered_json* training = nullptr;  // the last lines of each kind
  const nlohmann::ordered_json* evaluation = nullptr;
  // The evaluation with the highest score; the last one where there are no scores.
  const nlohmann::ordered_json* best = nullptr;
  std::optional<double> best_loss;  // of the last phase: losses at other sequence lengths are not comparable
  // In bytes, of the whole run: memory is given back when ranks are removed.
  std::vector<std::pair<std::string, double>> peak_memory;
};

Story story_of(const std::vector<nlohmann::ordered_json>& metrics);

std::optional<double> number_in(const nlohmann::ordered_json& object, const char* key);

// Six significant digits: more would enlarge the page without benefit.
double rounded(double value);

// [step, hours, value] of at most 500 points, means of their neighbours.
nlohmann::ordered_json points_of(const std::vector<Point>& points);

}  // namespace comera
