#pragma once

#include <cstdint>
#include <filesystem>

#include "data/durable_file.h"
#include "recipes/run/json.h"

namespace comera {

// metrics.jsonl: one JSON object per line, its first key "step", in the hands of the system after every line.
class MetricsWriter {
 public:
  // Goes on after `last_step`: lines of later steps, which the resumed run writes again, and a line that a
  // killed process left unfinished are cut off. A fresh run starts with last_step = -1.
  // Throws Error, also for a file that is a symbolic link.
  MetricsWriter(const std::filesystem::path& path, std::int64_t last_step);

  // Several lines may have the same step, but steps never fall. Throws Error, as on a full disk.
  void write(std::int64_t step, const JsonObject& metrics);

 private:
  data::FileDescriptor file_;
  std::int64_t bytes_ = 0;  // that are ours
};

}  // namespace comera
