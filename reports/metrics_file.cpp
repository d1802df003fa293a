#include "reports/metrics_file.h"

#include <fstream>
#include <string>

#include "kernels/core/check.h"

namespace comera {

std::vector<nlohmann::ordered_json> read_metrics(const std::filesystem::path& path) {
  std::error_code code;
  COMERA_CHECK(!std::filesystem::is_other(path, code), "{}: is not a regular file", path.string());
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw UsageError(
        fmt::format("{}: there is no such file; give the folder of a run that has begun", path.string()));
  std::vector<nlohmann::ordered_json> lines;
  std::string text;
  for (std::int64_t number = 1; std::getline(file, text); ++number) {
    nlohmann::ordered_json line = nlohmann::ordered_json::parse(text, nullptr, false);
    const bool is_ours = line.is_object() && line.contains("step") && line["step"].is_number();
    if (!is_ours && file.eof()) break;
    COMERA_CHECK(is_ours, "{}: line {} is no line of a run's metrics", path.string(), number);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace comera
