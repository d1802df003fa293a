#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "kernels/core/check.h"

namespace comera::storage {

// The system could not open or read a file; what() is its reason alone.
class ReadFailure : public Error {
 public:
  using Error::Error;
};

// Compressed data that is truncated, wrong, or followed by something else; what() says which.
class DamagedData : public Error {
 public:
  using Error::Error;
};

// The bytes of a file in order, plain or gzip-compressed (told by its first two bytes, RFC 1952). A gzip file
// may have several members, one behind the other, and zeros behind the last; of each, header, length and
// checksum must be right. Memory: 64 KiB and what zlib needs.
class InputFile {
 public:
  // ReadFailure if the system cannot open it.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(InputFile&&) noexcept;

  // Up to `most` bytes; 0 at the end. All that stands before a damage is given before DamagedData is thrown.
  std::size_t read(char* to, std::size_t most);
  // How many bytes of the file, as it lies on the disk, have been used for that.
  std::int64_t used() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace comera::storage
