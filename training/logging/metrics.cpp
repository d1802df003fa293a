#include "training/logging/metrics.h"

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "kernels/core/check.h"

namespace comera {

namespace {

using nlohmann::json;

constexpr std::string_view line_start = "{\"step\":";
constexpr std::int64_t no_step = -2;

// The step of a complete line, or no_step if it is not a line of metrics.
std::int64_t step_of(const std::string& line) {
  std::int64_t step = no_step;
  if (!line.starts_with(line_start) || !json::accept(line)) return no_step;
  std::from_chars(line.data() + line_start.size(), line.data() + line.size(), step);
  return step;
}

// The remainder of a killed process's last line.
bool is_unfinished(const std::string& line) {
  return line.starts_with(line_start) || line_start.starts_with(line);
}

// The lines of a file, by what happens to them.
struct Lines {
  std::string kept, damaged;
  std::int64_t kept_step = -1;  // of the last one
  std::int64_t damaged_count = 0;
  bool in_order = true;  // the kept lines are the beginning of the file
};

Lines sort_lines(const std::filesystem::path& path, std::int64_t last_step, MetricsPlace expected) {
  std::ifstream file(path, std::ios::binary);
  Lines lines;
  std::string line;
  bool dropped = false;
  std::int64_t of_expected_step = 0;
  const auto was_saved = [&](std::int64_t step) {
    if (expected.step < 0 || expected.lines < 0 || step < expected.step) return step <= last_step;
    return step == expected.step && ++of_expected_step <= expected.lines;
  };
  while (std::getline(file, line)) {
    const std::int64_t step = step_of(line);
    const bool whole = !file.eof();
    if (whole && step != no_step && was_saved(step)) {
      lines.kept += line + "\n";
      lines.kept_step = std::max(lines.kept_step, step);
      lines.in_order &= !dropped;
      continue;
    }
    dropped = true;
    if (step != no_step || (!whole && is_unfinished(line))) continue;
    lines.damaged += line + "\n";
    ++lines.damaged_count;
  }
  return lines;
}

}  // namespace

MetricsWriter::MetricsWriter(std::filesystem::path path, std::int64_t last_step, MetricsPlace expected)
    : path_(std::move(path)), file_(open(last_step, expected)), bytes_(file_.size()) {}

storage::FileDescriptor MetricsWriter::open(std::int64_t last_step, MetricsPlace expected) {
  storage::check_own(path_);
  cut_back(last_step, expected);
  return storage::FileDescriptor::open_own(path_);
}

void MetricsWriter::cut_back(std::int64_t last_step, MetricsPlace expected) {
  std::error_code code;
  const bool exists = std::filesystem::exists(path_, code);
  Lines lines;
  if (exists && last_step >= 0) lines = sort_lines(path_, last_step, expected);
  if (lines.damaged_count > 0) {
    std::filesystem::path aside = path_;
    aside += ".damaged";
    const storage::FileDescriptor file = storage::FileDescriptor::open_own(aside);
    file.write(file.size(), lines.damaged);
    file.sync();
    storage::sync_directory(path_.parent_path());
    report_ = fmt::format("{}: {} lines ({} bytes) are not metrics; they were moved to {}", path_.string(),
                          lines.damaged_count, lines.damaged.size(), aside.filename().string());
  }
  if (lines.damaged_count > 0 || !lines.in_order) {
    storage::write_file_durably(path_, lines.kept);
  } else if (exists) {
    storage::FileDescriptor::open_own(path_).truncate(static_cast<std::int64_t>(lines.kept.size()));
  }
  if (last_step < 0 || (exists && lines.kept_step >= expected.step)) return;
  if (!report_.empty()) report_ += "; ";
  const std::int64_t reached = expected.step >= 0 ? expected.step : last_step;
  report_ +=
      exists ? fmt::format("{}: ends at step {}, but had lines up to step {}; the lines between are lost",
                           path_.string(), std::max<std::int64_t>(lines.kept_step, 0), reached)
             : fmt::format("{}: is missing, so its lines up to step {} are lost", path_.string(), reached);
}

void MetricsWriter::write(std::int64_t step, const Json& metrics) {
  Json line = {{"step", step}};
  line.update(metrics);
  const std::string text = json_text(line) + "\n";
  file_.write(bytes_, text);
  bytes_ += static_cast<std::int64_t>(text.size());
}

MetricsReach reach_of_metrics(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  MetricsReach reach;
  std::set<std::string> phases;
  for (std::string line; std::getline(file, line);) {
    const std::int64_t step = step_of(line);
    if (step == no_step) continue;
    reach.last_step = std::max(reach.last_step, step);
    const json values = json::parse(line);
    if (const auto phase = values.find("phase"); phase != values.end() && phase->is_string())
      phases.insert(phase->get<std::string>());
    if (const auto ms = values.find("ms_per_step"); ms != values.end() && ms->is_number())
      reach.seconds_per_step = ms->get<double>() / 1e3;
  }
  reach.phases = std::max<std::int64_t>(1, std::ssize(phases));
  return reach;
}

bool holds_metrics(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  bool empty = true;
  while (std::getline(file, line)) {
    if (step_of(line) != no_step || (file.eof() && is_unfinished(line))) return true;
    empty = false;
  }
  return empty;
}

}  // namespace comera
