#include "training/logging/event_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "reports/tensorboard.h"

namespace comera {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// TensorBoard reads files whose names have this beginning, in the order of their names.
std::filesystem::path new_file(const std::filesystem::path& folder) {
  storage::create_directories_durably(folder);
  return folder / fmt::format("events.out.tfevents.{:.6f}.{}.comera", now(), getpid());
}

}  // namespace

EventWriter::EventWriter(const std::filesystem::path& folder, std::int64_t last_step)
    : file_(storage::FileDescriptor::create(new_file(folder))) {
  append(tensorboard_beginning(now(), last_step > 0 ? last_step + 1 : 0));
}

void EventWriter::write(std::int64_t step, const Json& metrics) {
  Json line = {{"step", step}};
  line.update(metrics);
  append(tensorboard_event(line, now()));
}

void EventWriter::append(const std::string& bytes) {
  file_.write(bytes_, bytes);
  bytes_ += static_cast<std::int64_t>(bytes.size());
}

}  // namespace comera
