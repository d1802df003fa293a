#include "recipes/run/metrics.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>

#include "kernels/core/check.h"

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
std::uintmax_t bytes_to_keep(const std::filesystem::path& path, std::int64_t last_step) {
  std::ifstream file(path, std::ios::binary);
  std::uintmax_t bytes = 0;
  std::string line;
  while (std::getline(file, line) && !file.eof()) {
    const std::int64_t step = step_of(line);
    if (step == -2 || step > last_step) break;
    bytes += line.size() + 1;
  }
  return bytes;
}

}  // namespace

MetricsWriter::MetricsWriter(std::filesystem::path path, std::int64_t last_step) : path_(std::move(path)) {
  std::error_code code;
  if (std::filesystem::exists(path_, code)) {
    std::filesystem::resize_file(path_, bytes_to_keep(path_, last_step), code);
    COMERA_CHECK(!code, "{}: could not cut off the lines after step {}: {}", path_.string(), last_step,
                 code.message());
  }
  errno = 0;
  file_.reset(std::fopen(path_.c_str(), "ab"));
  COMERA_CHECK(file_, "{}: could not open the file: {}", path_.string(), std::strerror(errno));
}

void MetricsWriter::write(std::int64_t step, const JsonObject& metrics) {
  JsonObject line;
  line.add("step", step);
  if (!metrics.members_.empty()) line.members_ += "," + metrics.members_;
  const std::string text = line.text() + "\n";
  errno = 0;
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() && std::fflush(file_.get()) == 0;
  COMERA_CHECK(written, "{}: could not write: {}", path_.string(), std::strerror(errno));
}

}  // namespace comera
