#include "recipes/run/metrics.h"

#include <charconv>
#include <fstream>
#include <string>

namespace comera {

namespace {

constexpr std::string_view line_start = "{\"step\":";

// The step of a line, or -2 if it is none of ours.
std::int64_t step_of(const std::string& line) {
  std::int64_t step = -2;
  if (line.starts_with(line_start) && line.ends_with('}'))
    std::from_chars(line.data() + line_start.size(), line.data() + line.size(), step);
  return step;
}

// How many bytes of the file belong to complete lines up to last_step.
std::int64_t bytes_to_keep(const std::filesystem::path& path, std::int64_t last_step) {
  std::ifstream file(path, std::ios::binary);
  std::int64_t bytes = 0;
  std::string line;
  while (std::getline(file, line) && !file.eof()) {
    const std::int64_t step = step_of(line);
    if (step == -2 || step > last_step) break;
    bytes += static_cast<std::int64_t>(line.size()) + 1;
  }
  return bytes;
}

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& path, std::int64_t last_step)
    : file_(data::FileDescriptor::open_own(path)), bytes_(bytes_to_keep(path, last_step)) {
  if (bytes_ < file_.size()) file_.truncate(bytes_);
}

void MetricsWriter::write(std::int64_t step, const JsonObject& metrics) {
  JsonObject line;
  line.add("step", step);
  if (!metrics.members_.empty()) line.members_ += "," + metrics.members_;
  const std::string text = line.text() + "\n";
  file_.write(bytes_, text);
  bytes_ += static_cast<std::int64_t>(text.size());
}

}  // namespace comera
