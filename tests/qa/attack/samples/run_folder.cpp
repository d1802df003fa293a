#include "tests/qa/attack/samples/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "checkpoints/checkpoint_directory.h"
#include "tests/qa/attack/samples/files.h"

namespace comera::attack {

namespace {

// Differ from run to run, or with how often it was stopped.
constexpr const char* passing[] = {"tokens_per_second", "ms_per_step", "peak_memory", "waiting_ms",
                                   "examples_per_second"};

std::vector<std::string> lines_of(const fs::path& metrics) {
  std::istringstream stream(read_text(metrics));
  std::vector<std::string> lines;
  for (std::string text; std::getline(stream, text);) {
    auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object()) {
      lines.push_back("no line of metrics: " + text.substr(0, 100));
      continue;
    }
    for (const char* name : passing) line.erase(name);
    lines.push_back(line.dump());
  }
  return lines;
}

std::string difference_in_file(const fs::path& ours, const fs::path& theirs) {
  std::error_code code;
  if (!fs::exists(theirs, code)) return "";
  if (!fs::exists(ours, code)) return ours.filename().string() + " is missing";
  const std::string one = read_text(ours), other = read_text(theirs);
  if (one == other) return "";
  const auto at = std::ranges::mismatch(one, other).in1 - one.begin();
  return fmt::format("{} differs from byte {} on ({} and {} bytes)", ours.filename().string(), at, one.size(),
                     other.size());
}

// Names that a run's folder may have.
bool is_known(const fs::path& relative) {
  const std::string name = relative.filename();
  static const std::set<std::string> known = {
      "lock",    "metrics.jsonl", "starts.jsonl", "recipe.toml", "tokenizer.model", "checkpoints",
      "best.h5", "latest",        "saved",        "processes",   "encoding.h5"};
  if (known.contains(name)) return true;
  return name.ends_with(".h5") && (name.starts_with("step-") || name.starts_with("best-phase-"));
}

std::string left_over(const fs::path& run) {
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    const fs::path relative = entry.path().lexically_relative(run);
    if (*relative.begin() != "processes" && !is_known(relative)) return relative.string() + " is left over";
  }
  return "";
}

// None where something else stands in the folder's place.
std::vector<std::int64_t> steps_in(const fs::path& run) {
  std::error_code code;
  return fs::is_directory(run / "checkpoints", code) ? checkpoint_steps(run / "checkpoints")
                                                     : std::vector<std::int64_t>();
}

}  // namespace

std::string difference_in_metrics(const fs::path& run, const fs::path& expected) {
  const std::vector<std::string> ours = lines_of(run / "metrics.jsonl"),
                                 theirs = lines_of(expected / "metrics.jsonl");
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i)
    if (i >= ours.size() || i >= theirs.size() || ours[i] != theirs[i])
      return fmt::format("line {} of metrics.jsonl is {} instead of {}", i + 1,
                         i < ours.size() ? ours[i].substr(0, 160) : "missing",
                         i < theirs.size() ? theirs[i].substr(0, 160) : "nothing");
  return "";
}

std::int64_t newest_step(const fs::path& run) {
  const std::vector<std::int64_t> steps = steps_in(run);
  return steps.empty() ? -1 : steps.back();
}

fs::path newest_checkpoint(const fs::path& run) {
  const std::int64_t step = newest_step(run);
  return step < 0 ? fs::path() : run / "checkpoints" / fmt::format("step-{:08}.h5", step);
}

std::int64_t last_metrics_step(const fs::path& run) {
  const std::string text = read_text(run / "metrics.jsonl");
  const std::size_t end = text.rfind('\n');
  if (end == text.npos || end == 0) return -1;
  const std::size_t before = text.rfind('\n', end - 1);
  const std::string line = text.substr(before == text.npos ? 0 : before + 1, end);
  const auto object = nlohmann::json::parse(line.substr(0, line.find('\n')), nullptr, false);
  return object.is_object() && object.contains("step") ? object["step"].get<std::int64_t>() : -1;
}

std::string damage_in(const fs::path& run) {
  std::vector<fs::path> files;
  for (const std::int64_t step : steps_in(run))
    files.push_back(run / "checkpoints" / fmt::format("step-{:08}.h5", step));
  std::error_code code;
  if (fs::is_regular_file(run / "best.h5", code)) files.push_back(run / "best.h5");
  for (const fs::path& file : files) try {
      CheckpointReader(file).verify();
    } catch (const std::exception& error) {
      return fmt::format("a checkpoint is not whole: {}", error.what());
    }
  return "";
}

std::string difference(const fs::path& run, const fs::path& expected, const Compared& compared) {
  if (newest_step(run) != newest_step(expected))
    return fmt::format("the last checkpoint is of step {} instead of {}", newest_step(run),
                       newest_step(expected));
  const fs::path last = newest_checkpoint(expected).lexically_relative(expected);
  for (const fs::path& name :
       {last, fs::path("checkpoints/latest"), fs::path("best.h5"), fs::path("best-phase-0.h5"),
        fs::path("best-phase-1.h5"), fs::path("recipe.toml"), fs::path("tokenizer.model")})
    if (std::string found = difference_in_file(run / name, expected / name); !found.empty()) return found;
  if (compared.metrics)
    if (std::string found = difference_in_metrics(run, expected); !found.empty()) return found;
  return left_over(run);
}

}  // namespace comera::attack
