#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/check.h"
#include "storage/input_file.h"

namespace comera::data {

// A file that cannot be opened or read.
class UnreadableFile : public Error {
 public:
  using Error::Error;
};

// A file with broken compressed data: truncated or with a wrong checksum.
class DamagedFile : public Error {
 public:
  using Error::Error;
};

// The lines of a text file, plain or compressed (storage/input_file.h), or its bytes. A UTF-8 byte-order
// mark at the start and a carriage return before a line end are removed. Memory: 64 KiB, and the longest
// accepted line.
class LineReader {
 public:
  static constexpr std::int64_t default_longest = std::int64_t{16} << 20;

  // UnreadableFile with the system's reason if the file cannot be opened.
  explicit LineReader(std::filesystem::path path, std::int64_t longest = default_longest);

  enum class Result : std::uint8_t {
    line,
    too_long,  // longer than `longest` bytes; it was skipped, and `line` is empty
    end,
  };
  // The next line without its line end. DamagedFile for a broken compressed file, which
  // names the line, after the lines before the damage; UnreadableFile if reading fails.
  Result next(std::string& line);

  // The coming bytes, without consuming them: 16 KiB at the file's beginning, later at least a byte; empty at
  // the end. Fails like next().
  std::string_view ahead();
  // The next byte, including line ends; false at the end. Fails like next().
  bool take(char& byte) {
    if (begin_ == end_ && !refill()) return false;
    byte = buffer_[begin_++];
    number_ += byte == '\n';
    return true;
  }

  // The number of the last line, from 1; after take(), the number of completed lines.
  std::int64_t number() const { return number_; }
  // The size of the last line, too long or not, without its end.
  std::int64_t bytes() const { return bytes_; }
  // Bytes of the file on disk that have not been read yet.
  std::int64_t unread() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  bool refill();  // false at the end of the file

  std::filesystem::path path_;
  std::int64_t longest_;
  storage::InputFile file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of the rest of the buffer
  std::int64_t number_ = 0;
  std::int64_t bytes_ = 0;
  bool begun_ = false;
  bool at_end_ = false;
};

}  // namespace comera::data
