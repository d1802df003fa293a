#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/durable_file.h"

// What a checkpoint has around its HDF5 part, so that damage is found before HDF5, which may crash on it,
// sees the file. HDF5 ignores both ends of it, and other programs (h5py, h5dump) read the file as it is.
//
//   512 bytes   header, text: magic, format version, size of the file, place and checksum of the manifest,
//               and a checksum of the header itself
//   ...         HDF5
//   the rest    manifest, text: place and checksum of every tensor's numbers, and one checksum of all that
//               lies between them (names, shapes, attributes)
//
// So every byte is under a checksum, and all but the tensors can be verified without reading them. Checksums
// are zlib's CRC-32: any one flipped bit and any burst of up to 32 changes it, and zlib comes with HDF5.
namespace comera::checkpoint_detail {

inline constexpr std::int64_t header_bytes = 512;  // the smallest user block of HDF5
inline constexpr std::int64_t format_version = 1;

std::uint32_t checksum(const void* data, std::size_t bytes, std::uint32_t continued = 0);

struct TensorRecord {
  std::string path;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::uint32_t checksum = 0;
};

// Adds manifest and header to a closed HDF5 file with a user block of header_bytes. Reads the numbers back
// first: Error if they are not those that the records have the checksums of.
void seal(const data::FileDescriptor& file, std::vector<TensorRecord> tensors);

// Verifies everything but the tensors and returns their records by place. Throws Error with the file's name
// and what is wrong with it.
std::vector<TensorRecord> open_sealed(const std::filesystem::path& path);

// The checksum of bytes [offset, offset + bytes) of the file.
std::uint32_t checksum(const data::FileDescriptor& file, std::int64_t offset, std::int64_t bytes,
                       std::uint32_t continued = 0);

}  // namespace comera::checkpoint_detail
