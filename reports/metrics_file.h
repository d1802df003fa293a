#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace comera {

// The content of a run's metrics.jsonl. Invalid lines, such as a last line that a killed process left
// unfinished, are skipped, and a note says so.
struct RunMetrics {
  std::vector<nlohmann::ordered_json> lines;  // objects with a `step`
  std::vector<std::string> notes = {};
  std::int64_t first_bad = 0;  // the number of the first skipped line other than the last; 0: none
};

// UsageError if there is no such file.
RunMetrics read_metrics(const std::filesystem::path& path);

// The subject of a line: the steps since the previous line, or an evaluation.
bool is_training(const nlohmann::ordered_json& line);
bool is_evaluation(const nlohmann::ordered_json& line);

// Visits each number of a line except its step; numbers of a nested object get names such as
// "learning_rate/cores".
void for_each_number(const nlohmann::ordered_json& line,
                     const std::function<void(const std::string& name, double value)>& call);

// The member, if it is an object.
const nlohmann::ordered_json* object_in(const nlohmann::ordered_json& object, const char* key);

}  // namespace comera
