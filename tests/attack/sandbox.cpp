#include "tests/attack/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace comera::attack {

namespace {

bool entered = false;
int folder_above = -1;  // opened outside of the private mounts, so that it can be written

// Where file systems are mounted, outermost first.
std::vector<std::string> mount_points() {
  std::ifstream stream("/proc/self/mountinfo");
  std::vector<std::string> points;
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string id, parent, device, root, point;
    if (words >> id >> parent >> device >> root >> point) points.push_back(point);
  }
  return points;
}

bool holds(const std::string& folder, const std::string& path) {
  return path == folder || path.starts_with(folder == "/" ? folder : folder + "/");
}

}  // namespace

bool private_mounts() { return entered; }

void enter_private_mounts(const fs::path& folder) {
  folder_above = open(folder.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0) return;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
  const std::vector<std::string> points = mount_points();
  const std::string own = fs::canonical(folder);
  if (mount(own.c_str(), own.c_str(), nullptr, MS_BIND, nullptr) != 0) return;
  for (const std::string& point : points) {
    // The processes of a job share memory there; processes read their limits in /proc.
    if (holds("/dev/shm", point) || holds("/proc", point)) continue;
    mount(nullptr, point.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr);
  }
  entered = access("/", W_OK) != 0 && access(own.c_str(), W_OK) == 0;
}

void remove_own_folder(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) fs::remove_all(entry.path(), ignored);
  umount2(folder.c_str(), MNT_DETACH);  // fails if nothing was mounted
  unlinkat(folder_above, folder.filename().c_str(), AT_REMOVEDIR);
}

SmallDisk::SmallDisk(fs::path place, std::int64_t bytes) : place_(std::move(place)), bytes_(bytes) {
  fs::create_directories(place_);
  if (mount("attack", place_.c_str(), "tmpfs", 0, fmt::format("size={}", bytes).c_str()) != 0)
    throw std::runtime_error(
        fmt::format("{}: nothing can be mounted there: {}", place_.string(), std::strerror(errno)));
}

SmallDisk::~SmallDisk() { umount2(place_.c_str(), MNT_DETACH); }

void SmallDisk::resize(std::int64_t bytes) const {
  bytes_ = bytes;
  if (mount("attack", place_.c_str(), "tmpfs", MS_REMOUNT, fmt::format("size={}", bytes).c_str()) != 0)
    throw std::runtime_error(fmt::format("{}: cannot be resized: {}", place_.string(), std::strerror(errno)));
}

void SmallDisk::read_only(bool on) const {
  if (mount("attack", place_.c_str(), "tmpfs", MS_REMOUNT | (on ? MS_RDONLY : 0),
            fmt::format("size={}", bytes_).c_str()) != 0)
    throw std::runtime_error(
        fmt::format("{}: cannot be mounted again: {}", place_.string(), std::strerror(errno)));
}

}  // namespace comera::attack
