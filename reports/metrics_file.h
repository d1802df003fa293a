#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

namespace comera {

// The lines of a run's metrics.jsonl. A last line that a killed process left unfinished is ignored.
// UsageError if there is no such file; Error on a line that is none of a run.
std::vector<nlohmann::ordered_json> read_metrics(const std::filesystem::path& path);

}  // namespace comera
