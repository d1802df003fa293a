#include "data/tables/line_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace comera::data {

namespace {

constexpr std::size_t buffer_bytes = std::size_t{16} << 10;

storage::InputFile open(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw UnreadableFile(fmt::format("{}: could not open: {}", path.string(), std::strerror(errno)));
  if (S_ISDIR(status.st_mode))
    throw UnreadableFile(fmt::format("{}: is a folder, expected a file", path.string()));
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode))
    throw UnreadableFile(fmt::format("{}: is a device, expected a file", path.string()));
  try {
    return storage::InputFile(path);
  } catch (const storage::ReadFailure& failure) {
    throw UnreadableFile(fmt::format("{}: could not open: {}", path.string(), failure.what()));
  }
}

}  // namespace

LineReader::LineReader(std::filesystem::path path, std::int64_t longest)
    : path_(std::move(path)), longest_(longest), file_(open(path_)), buffer_(buffer_bytes) {}

bool LineReader::refill() {
  if (at_end_) return false;
  std::size_t count = 0;
  try {
    count = file_.read(buffer_.data(), buffer_.size());
  } catch (const storage::ReadFailure& failure) {
    throw UnreadableFile(
        fmt::format("{}: could not read after line {}: {}", path_.string(), number_, failure.what()));
  } catch (const storage::DamagedData& damage) {
    throw DamagedFile(
        fmt::format("{}: damaged compressed data after line {}: {}; download or compress the file again",
                    path_.string(), number_, damage.what()));
  }
  begin_ = 0;
  end_ = count;
  at_end_ = count == 0;
  if (!std::exchange(begun_, true) && std::string_view(buffer_.data(), end_).starts_with("\xEF\xBB\xBF")) {
    begin_ = 3;
    if (begin_ == end_) return refill();
  }
  return !at_end_;
}

std::string_view LineReader::ahead() {
  if (begin_ == end_ && !refill()) return {};
  return {buffer_.data() + begin_, end_ - begin_};
}

std::int64_t LineReader::unread() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  return std::max<std::int64_t>(0, status.st_size - file_.used());
}

LineReader::Result LineReader::next(std::string& line) {
  line.clear();
  bytes_ = 0;
  bool any = false, too_long = false;
  while (begin_ < end_ || refill()) {
    any = true;
    const char* from = buffer_.data() + begin_;
    const std::size_t left = end_ - begin_;
    const void* found = std::memchr(from, '\n', left);
    const std::size_t count = found != nullptr ? static_cast<const char*>(found) - from : left;
    if (!too_long && line.size() + count > static_cast<std::size_t>(longest_)) {
      too_long = true;
      line.clear();
    }
    if (!too_long) line.append(from, count);
    bytes_ += static_cast<std::int64_t>(count);
    begin_ += count + (found != nullptr ? 1 : 0);
    if (found != nullptr) break;
  }
  if (!any) return Result::end;
  ++number_;
  if (too_long) return Result::too_long;
  if (line.ends_with('\r')) line.pop_back();
  return Result::line;
}

}  // namespace comera::data
