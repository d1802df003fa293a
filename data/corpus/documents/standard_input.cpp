#include "data/corpus/documents/standard_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "kernels/core/check.h"

namespace comera::data {

namespace {

bool is_regular(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

int unnamed_file() {
  std::string name = (std::filesystem::temp_directory_path() / "comera-input-XXXXXX").string();
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0)
    throw Error(
        fmt::format("{}: could not create a file for standard input: {}; set TMPDIR to another folder", name,
                    std::strerror(errno)));
  ::unlink(name.c_str());
  return descriptor;
}

void write_all(int descriptor, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t written = ::write(descriptor, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw Error(
          fmt::format("standard input could not be stored in {}: {}; set TMPDIR to a folder with more "
                      "space",
                      std::filesystem::temp_directory_path().string(), std::strerror(errno)));
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
}

// From then on, standard input is a file.
void store_standard_input() {
  const int file = unnamed_file();
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(fmt::format("standard input could not be read: {}", std::strerror(errno)));
    if (got == 0) break;
    write_all(file, buffer.data(), static_cast<std::size_t>(got));
  }
  if (::dup2(file, STDIN_FILENO) < 0) throw Error(std::strerror(errno));
  ::close(file);
}

}  // namespace

std::filesystem::path or_standard_input(const std::filesystem::path& path) {
  if (path != "-") return path;
  if (::isatty(STDIN_FILENO) != 0)
    throw UsageError(
        "'-' reads standard input, which is a terminal: pipe text into the command, or name files");
  if (!is_regular(STDIN_FILENO)) store_standard_input();
  return "/dev/stdin";
}

}  // namespace comera::data
