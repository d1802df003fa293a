#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "storage/seal.h"

// What a checkpoint has around its HDF5 part, so that damage is found before HDF5, which may crash on it,
// sees the file. HDF5 ignores both ends of it, and other programs (h5py, h5dump) read the file as it is.
//
//   512 bytes   a seal (storage/seal.h) whose last line gives the place and the checksum of the manifest:
//               "manifest OFFSET BYTES 89abcdef"
//   ...         HDF5
//   the rest    manifest, text: place and checksum of every tensor's numbers, and one checksum of all that
//               lies between them (names, shapes, attributes)
//
// So every byte is under a checksum, and all but the tensors can be verified without reading them.
namespace comera::checkpoint_detail {

struct TensorRecord {
  std::string path;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::uint32_t checksum = 0;
};

// An Error with the file's name, the reason and what to do about a damaged checkpoint.
[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason);

// Adds manifest and header to a closed HDF5 file with a user block of storage::seal_bytes. Reads the numbers
// back first: Error if they are not those that the records have the checksums of.
void seal(const storage::FileDescriptor& file, std::vector<TensorRecord> tensors);

// Whether a file begins as what seal() has sealed.
bool is_sealed(const std::filesystem::path& path);

// Verifies everything but the tensors and returns their records by place. Throws Error with the file's name
// and what is wrong with it.
std::vector<TensorRecord> open_sealed(const std::filesystem::path& path);

}  // namespace comera::checkpoint_detail
