#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/check.h"

namespace comera::data {

// A file whose compressed data is broken: truncated or with a wrong checksum.
class DamagedFile : public Error {
 public:
  using Error::Error;
};

// The lines of a text file, plain or gzip-compressed (told by its content). A UTF-8 byte-order mark at the
// start and a carriage return before a line end are left out. Memory: 256 KiB, and the longest line that is
// accepted.
class LineReader {
 public:
  static constexpr std::int64_t default_longest = std::int64_t{16} << 20;

  // Error with the system's reason if the file cannot be read.
  explicit LineReader(std::filesystem::path path, std::int64_t longest = default_longest);

  enum class Result : std::uint8_t {
    line,
    too_long,  // longer than `longest` bytes; it was passed without being kept, `line` is empty
    end,
  };
  // The next line without its line end. DamagedFile for a broken gzip file, which names the line; Error if
  // the file cannot be read.
  Result next(std::string& line);

  // Of the line read last, from 1.
  std::int64_t number() const { return number_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  bool refill();  // false at the end of the file

  std::filesystem::path path_;
  std::int64_t longest_;
  std::shared_ptr<void> file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what is left of the buffer
  std::int64_t number_ = 0;
  bool at_end_ = false;
};

}  // namespace comera::data
