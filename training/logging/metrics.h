#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "storage/durable_file.h"
#include "training/logging/json.h"

namespace comera {

// How far a file of metrics goes.
struct MetricsPlace {
  std::int64_t step = -1;   // of the last line; -1: not known
  std::int64_t lines = -1;  // that have this step; -1: not known

  void add(std::int64_t next) {
    lines = next == step ? lines + 1 : 1;
    step = next;
  }
};

// metrics.jsonl: one JSON object per line, its first key "step", in the hands of the system after every line.
class MetricsWriter {
 public:
  // Goes on after `last_step`: lines of later steps, which the resumed run writes again, and a line that a
  // killed process left unfinished are cut off. What is no line of metrics is cut out and put at the end of
  // FILE.damaged. A fresh run starts with last_step = -1.
  //   expected: what the file had when the step was saved. What came later, such as the line of an evaluation
  //   of
  //     that step that was done again after a resume and not saved either, is written again, too.
  // Throws Error, also for a file that is a symbolic link.
  MetricsWriter(std::filesystem::path path, std::int64_t last_step, MetricsPlace expected = {});

  // What was wrong with the file, in one line; empty if nothing was.
  const std::string& report() const { return report_; }

  // Several lines may have the same step, but steps never fall. Throws Error, as on a full disk.
  void write(std::int64_t step, const Json& metrics);

 private:
  storage::FileDescriptor open(std::int64_t last_step, MetricsPlace expected);
  void cut_back(std::int64_t last_step, MetricsPlace expected);

  std::filesystem::path path_;
  std::string report_;
  storage::FileDescriptor file_;
  std::int64_t bytes_ = 0;  // that are ours
};

// What the file says of how far its run has come; steps are 0 and phases 1 if there is none.
struct MetricsReach {
  std::int64_t last_step = 0;
  std::int64_t phases = 1;      // that have lines
  double seconds_per_step = 0;  // of the last steps; 0: not known
};
MetricsReach reach_of_metrics(const std::filesystem::path& path);

// Whether a file is what a run writes, if only its beginning: empty, or with a line of metrics, whole or not.
bool holds_metrics(const std::filesystem::path& path);

}  // namespace comera
