#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "storage/seal.h"

// The envelope around a checkpoint's HDF5 part. It detects damage before HDF5, which may crash on it, sees
// the file. HDF5 ignores both ends of the file, and other programs (h5py, h5dump) read the file as it is.
//
//   512 bytes   a seal (storage/seal.h) whose last line gives the position and the checksum of the manifest:
//               "manifest OFFSET BYTES 89abcdef"
//   ...         HDF5
//   the rest    manifest, text: position and checksum of every tensor's values, and one checksum of all
//               bytes between them (names, shapes, attributes)
//
// So a checksum covers every byte, and everything but the tensors can be verified without reading them.
namespace comera::checkpoint_detail {

struct TensorRecord {
  std::string path;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::uint32_t checksum = 0;
};

// An Error with the file's name, the reason and the remedy for a damaged checkpoint.
[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason);

// Adds manifest and header to a closed HDF5 file with a user block of storage::seal_bytes. First reads the
// values back: Error if they do not match the records' checksums.
void seal(const storage::FileDescriptor& file, std::vector<TensorRecord> tensors);

// Whether a file begins like one that seal() has sealed.
bool is_sealed(const std::filesystem::path& path);

// Verifies everything except the tensors and returns their records by position. Throws Error with the file's
// name and the defect.
std::vector<TensorRecord> open_sealed(const std::filesystem::path& path);

}  // namespace comera::checkpoint_detail
