#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace comera {

// What is in a run's metrics.jsonl. Lines that are none of a run's, such as a last one that a killed process
// left unfinished, are left out, and a note says so.
struct RunMetrics {
  std::vector<nlohmann::ordered_json> lines;  // objects with a `step`
  std::vector<std::string> notes = {};
  std::int64_t first_bad = 0;  // the number of the first line that was left out and is not the last; 0: none
};

// UsageError if there is no such file.
RunMetrics read_metrics(const std::filesystem::path& path);

// What a line is about: the steps since the line before, or an evaluation.
bool is_training(const nlohmann::ordered_json& line);
bool is_evaluation(const nlohmann::ordered_json& line);

// Each number of a line but its step; those of an object within it by names such as "learning_rate/cores".
void for_each_number(const nlohmann::ordered_json& line,
                     const std::function<void(const std::string& name, double value)>& call);

// The member, if it is an object.
const nlohmann::ordered_json* object_in(const nlohmann::ordered_json& object, const char* key);

}  // namespace comera
