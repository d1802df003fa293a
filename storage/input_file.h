#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "kernels/core/check.h"

namespace comera::storage {

// The system could not open or read a file; what() is the reason alone.
class ReadFailure : public Error {
 public:
  using Error::Error;
};

// Compressed data that is truncated, invalid, or followed by something else; what() says which.
class DamagedData : public Error {
 public:
  using Error::Error;
};

// The bytes of a file in order, plain or compressed with gzip (RFC 1952) or Zstandard (RFC 8878), detected by
// its first bytes. A gzip file may have several members in sequence, and zeros after the last; header, length
// and checksum of each must be right. A Zstandard file may have several frames; checksums that they carry
// must be right. Memory: 64 KiB and what zlib or zstd needs (a frame's window, up to 2 GiB).
class InputFile {
 public:
  // ReadFailure if the system cannot open it.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(InputFile&&) noexcept;

  // Up to `most` bytes; 0 at the end. All bytes before damaged data are returned before DamagedData is
  // thrown.
  std::size_t read(char* to, std::size_t most);
  // How many bytes of the file on disk have been consumed so far.
  std::int64_t used() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace comera::storage
