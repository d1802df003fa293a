#include "storage/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kernels/core/check.h"
#include "storage/folder.h"

namespace comera::storage {

namespace {

// Closed with the object. Opening never blocks, not even for a pipe.
struct Opened {
  explicit Opened(const std::filesystem::path& path)
      : file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~Opened() {
    if (file >= 0) ::close(file);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  int file;
};

}  // namespace

std::string read_small_file(const std::filesystem::path& path, std::int64_t limit,
                            std::string_view expected) {
  const std::string name = path.string();
  const auto refuse_size = [&](std::int64_t bytes, const char* more) {
    throw Error(fmt::format("{}: has {} bytes{}, more than the limit of {}; expected {}", name, bytes, more,
                            limit, expected));
  };
  refuse_missing(path, "file", fmt::format("expected {}", expected));
  const Opened opened(path);
  struct stat status {};
  if (opened.file < 0 || fstat(opened.file, &status) != 0)
    throw Error(
        fmt::format("{}: could not be opened: {}; expected {}", name, std::strerror(errno), expected));
  COMERA_CHECK(!S_ISDIR(status.st_mode), "{}: is a directory; expected {}", name, expected);
  COMERA_CHECK(S_ISREG(status.st_mode),
               "{}: is not a regular file but a device or a pipe, as <(...) makes one; expected {}", name,
               expected);
  if (status.st_size > limit) refuse_size(status.st_size, "");
  std::string text;
  std::string block(std::size_t{64} << 10, '\0');
  while (true) {
    const ssize_t got = ::read(opened.file, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    COMERA_CHECK(got >= 0, "{}: could not be read: {}", name, std::strerror(errno));
    if (got == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(got));
    // It is growing, or the system does not know its size.
    if (const auto bytes = static_cast<std::int64_t>(text.size()); bytes > limit)
      refuse_size(bytes, " or more");
  }
}

}  // namespace comera::storage
