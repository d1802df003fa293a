#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

// A file that HDF5 wrote with a user block of seal_bytes, and the text in that block:
//
//   comera shard          what it is
//   version 2             of its format
//   bytes 123456          of the whole file
//   contents 89abcdef     CRC-32 of all that follows the block
//   (zeros, and at the block's end a CRC-32 of the block itself)
//
// So every byte is under a checksum, and damage is found before HDF5, which may crash on it or read other
// numbers, sees the file. A CRC protects against accidents, not against someone who makes a file to do harm.
namespace comera::data {

inline constexpr std::int64_t seal_bytes = 512;  // the smallest user block of HDF5

struct SealKind {
  std::string_view what;     // "shard"
  std::int64_t version = 0;  // of the format, the newest that this program knows
  std::string_view advice;   // what to do about a file that is refused: "make it again with 'comera data'"
};

// What a file begins with, told without HDF5; other also of what cannot be read.
enum class FileStart : std::uint8_t { seal, hdf5, other };
FileStart start_of(const std::filesystem::path& path, const SealKind& kind);

// Writes the seal of a closed file. Does not wait for the disk.
void seal(const std::filesystem::path& path, const SealKind& kind);

// Reads the whole file once. Error with its name if it is not sealed as that, or not as it was when it was.
void check_seal(const std::filesystem::path& path, const SealKind& kind);

}  // namespace comera::data
