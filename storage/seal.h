#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "storage/durable_file.h"

// A file that HDF5 wrote with a user block of seal_bytes, and the text in that block:
//
//   comera shard          kind of file
//   version 2             of its format
//   bytes 123456          of the whole file
//   contents 89abcdef     about the rest: for a shard, the CRC-32 of everything after the block
//   (zeros, and at the block's end a CRC-32 of the block itself)
//
// So a checksum covers every byte, and damage is found before HDF5, which may crash on it or read wrong
// values, sees the file. Checksums are zlib's CRC-32, which detects any single flipped bit and any burst of
// up to 32 bits. They protect against accidents, not against deliberately harmful files.
namespace comera::storage {

inline constexpr std::int64_t seal_bytes = 512;  // the smallest user block of HDF5

struct SealKind {
  std::string_view what;          // "shard"
  std::int64_t version = 0;       // of the format, the newest that this program supports
  std::string_view advice;        // the remedy for a damaged file: "make it again with 'comera data'"
  std::string_view instead = {};  // what to give instead of a file of another kind; empty: the advice
};

struct Seal {
  std::int64_t version = 0;
  std::int64_t bytes = 0;
  std::string rest;  // the last line
};

// The block's text.
std::string to_text(const Seal& seal, const SealKind& kind);
// An Error with the file's name, the reason and the advice.
[[noreturn]] void refuse(const std::filesystem::path& path, const SealKind& kind, const std::string& reason);
// Opens a file and verifies its block and its size. Error if the seal is of another kind, or the size
// differs.
struct SealedFile {
  FileDescriptor file;
  Seal seal;
};
SealedFile open_sealed(const std::filesystem::path& path, const SealKind& kind);

// A file's kind by its first bytes, determined without HDF5; unreadable files are `other`.
enum class FileStart : std::uint8_t { seal, hdf5, other };
FileStart start_of(const std::filesystem::path& path, const SealKind& kind);

// Writes the seal of a closed file, with a checksum of its contents. Does not wait for the disk.
void seal(const std::filesystem::path& path, const SealKind& kind);

// Reads the whole file once. Error with its name if the seal is of another kind, or the file has changed
// since it was sealed.
void check_seal(const std::filesystem::path& path, const SealKind& kind);

std::uint32_t checksum(const void* data, std::size_t bytes, std::uint32_t continued = 0);
// The checksum of bytes [offset, offset + bytes) of the file.
std::uint32_t checksum(const FileDescriptor& file, std::int64_t offset, std::int64_t bytes,
                       std::uint32_t continued = 0);

}  // namespace comera::storage
