#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "storage/durable_file.h"
#include "training/logging/json.h"

namespace comera {

// How far a metrics file reaches.
struct MetricsPlace {
  std::int64_t step = -1;   // of the last line; -1: unknown
  std::int64_t lines = -1;  // with this step; -1: unknown

  void add(std::int64_t next) {
    lines = next == step ? lines + 1 : 1;
    step = next;
  }
};

// metrics.jsonl: one JSON object per line, with "step" as the first key. Every line is written to the system
// at once.
class MetricsWriter {
 public:
  // Continues after `last_step`: lines of later steps, which the resumed run writes again, and a line that a
  // killed process left unfinished are cut off. Lines that are not metrics are moved to the end of
  // FILE.damaged. A fresh run starts with last_step = -1.
  //   expected: the file's extent when the step was saved. Lines written after that, such as the line of an
  //   evaluation of that step which is repeated after a resume, are written again, too.
  // Throws Error, also for a file that is a symbolic link.
  MetricsWriter(std::filesystem::path path, std::int64_t last_step, MetricsPlace expected = {});

  // What was wrong with the file, in one line; empty if nothing was.
  const std::string& report() const { return report_; }

  // Several lines may have the same step, but steps never decrease. Throws Error, for instance on a full
  // disk.
  void write(std::int64_t step, const Json& metrics);

 private:
  storage::FileDescriptor open(std::int64_t last_step, MetricsPlace expected);
  void cut_back(std::int64_t last_step, MetricsPlace expected);

  std::filesystem::path path_;
  std::string report_;
  storage::FileDescriptor file_;
  std::int64_t bytes_ = 0;  // written by this run
};

// The run's progress according to the file; without a file, steps are 0 and phases 1.
struct MetricsReach {
  std::int64_t last_step = 0;
  std::int64_t phases = 1;      // that have lines
  double seconds_per_step = 0;  // of the last steps; 0: unknown
};
MetricsReach reach_of_metrics(const std::filesystem::path& path);

// Whether a file is a metrics file or the beginning of one: empty, or with a complete or partial line of
// metrics.
bool holds_metrics(const std::filesystem::path& path);

}  // namespace comera
