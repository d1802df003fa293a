#pragma once

#include <cstdint>
#include <filesystem>

#include "storage/durable_file.h"
#include "training/logging/json.h"

namespace comera {

// A run's metrics as an event file for TensorBoard that grows with them. Each start of a run has a file of
// its own in the folder; what an interrupted run wrote beyond the step that a resumed one continues from,
// TensorBoard drops.
class EventWriter {
 public:
  // last_step: that the run continues from; 0: a fresh run. Throws Error.
  EventWriter(const std::filesystem::path& folder, std::int64_t last_step);

  // The line is written to the system at once. Throws Error, for instance on a full disk.
  void write(std::int64_t step, const Json& metrics);

 private:
  void append(const std::string& bytes);

  storage::FileDescriptor file_;
  std::int64_t bytes_ = 0;
};

}  // namespace comera
