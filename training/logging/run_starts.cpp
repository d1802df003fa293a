#include "training/logging/run_starts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <ctime>
#include <fstream>
#include <sstream>

#include "kernels/core/check.h"
#include "kernels/core/machine.h"
#include "storage/durable_file.h"
#include "storage/small_file.h"
#include "training/logging/json.h"

namespace comera {

namespace {

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return fmt::format("{:%Y-%m-%d %H:%M}", local);
}

// The system's own files, which have no size to be checked.
std::string system_text(const char* file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string processor_name() {
  std::istringstream lines(system_text("/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("model name"))
      if (const std::size_t at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return "unknown processor";
}

std::vector<std::string> own_command() {
  std::vector<std::string> words;
  std::istringstream text(system_text("/proc/self/cmdline"));
  for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  return words;
}

}  // namespace

void note_start(const std::filesystem::path& file, std::int64_t step, const std::string& device) {
  const Json line = {{"time", now_text()},
                     {"step", step},
                     {"machine", fmt::format("{}, {} CPUs; {}", processor_name(), machine_cpus(), device)},
                     {"command", own_command()}};
  std::error_code code;
  if (step == 0) std::filesystem::remove(file, code);  // of a run that this one replaces
  const storage::FileDescriptor descriptor = storage::FileDescriptor::open_own(file);
  // A line end first: a killed process may have left a part of a line.
  const std::int64_t size = descriptor.size();
  descriptor.write(size, (size > 0 ? "\n" : "") + json_text(line) + "\n");
}

std::vector<RunStart> read_starts(const std::filesystem::path& file) {
  std::vector<RunStart> starts;
  std::string text;
  try {
    text = storage::read_small_file(file, 1 << 20, "the starts of a run");
  } catch (const Error&) {
    return starts;
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) try {
      const Json json = Json::parse(line);
      starts.push_back({json.at("time").get<std::string>(), json.at("step").get<std::int64_t>(),
                        json.at("machine").get<std::string>(),
                        json.at("command").get<std::vector<std::string>>()});
    } catch (const nlohmann::json::exception&) {
      continue;  // a killed process has left a part of it
    }
  return starts;
}

}  // namespace comera
