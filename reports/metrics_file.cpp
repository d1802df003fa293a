#include "reports/metrics_file.h"

#include <fstream>

#include "kernels/core/check.h"

namespace comera {

namespace {

using Json = nlohmann::ordered_json;

// A line of a run is flat except for a few objects of numbers.
bool is_line_of_run(const Json& line) {
  return line.is_object() && line.contains("step") && line["step"].is_number();
}

Json parsed(const std::string& text) {
  constexpr int deepest = 16;
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, const Json&) {
    too_deep = too_deep || depth > deepest;
    return !too_deep;
  };
  Json line = Json::parse(text, watch, false);
  return too_deep ? Json() : line;
}

void add_numbers(const Json& object, const std::string& before,
                 const std::function<void(const std::string&, double)>& call) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = before.empty() ? key : fmt::format("{}/{}", before, key);
    if (value.is_object())
      add_numbers(value, name, call);
    else if (value.is_number() && name != "step")
      call(name, value.get<double>());
  }
}

// Lines of versions before 0.2.0.
void rename_old(Json& line) {
  if (const auto ranks = line.find("ranks"); ranks != line.end() && ranks->is_object())
    for (const char* key : {"stage", "branch"})
      if (const auto found = ranks->find(key); found != ranks->end())
        *found = *found == "early" ? Json("regularize") : *found == "late" ? Json("compress") : *found;
  const auto rates = line.find("learning_rate");
  if (rates == line.end() || !rates->is_object() || !rates->contains("rest")) return;
  (*rates)["other"] = std::move((*rates)["rest"]);
  rates->erase("rest");
}

}  // namespace

RunMetrics read_metrics(const std::filesystem::path& path) {
  std::error_code code;
  COMERA_CHECK(!std::filesystem::is_other(path, code), "{}: is not a regular file", path.string());
  COMERA_CHECK(!std::filesystem::is_directory(path, code), "{}: is a folder, expected a run's metrics",
               path.string());
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw UsageError(
        fmt::format("{}: there is no such file; give the folder of a run that has started", path.string()));
  RunMetrics metrics;
  std::int64_t bad = 0, number = 1;
  for (std::string text; std::getline(file, text); ++number) {
    Json line = parsed(text);
    if (is_line_of_run(line)) {
      rename_old(line);
      metrics.lines.push_back(std::move(line));
    } else if (file.eof()) {
      metrics.notes.push_back(
          fmt::format("the last line of {} is incomplete and was skipped", path.filename().string()));
    } else if (++bad == 1) {
      metrics.first_bad = number;
    }
  }
  if (bad > 0)
    metrics.notes.push_back(fmt::format("{} {} of {} cannot be read and {} left out; the first is line {}",
                                        bad, bad == 1 ? "line" : "lines", path.filename().string(),
                                        bad == 1 ? "is" : "are", metrics.first_bad));
  return metrics;
}

bool is_training(const Json& line) { return line.contains("phase"); }

bool is_evaluation(const Json& line) {
  return !is_training(line) && (line.contains("validation_loss") || line.contains("validation"));
}

void for_each_number(const Json& line, const std::function<void(const std::string&, double)>& call) {
  add_numbers(line, "", call);
}

const Json* object_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? &*found : nullptr;
}

}  // namespace comera
