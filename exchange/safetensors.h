#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "storage/durable_file.h"

namespace comera::exchange {

// Hugging Face's safetensors file: eight bytes with the size of a JSON header, the header with the type,
// shape and position of each named tensor, and their values, little-endian and row-major.

struct TensorToWrite {
  std::string name;
  std::vector<std::int64_t> shape;
  std::function<std::vector<double>()> values;  // called when the tensor is written
};

// Writes float32. Only one tensor's values are in memory at a time. The file appears when it is complete.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors);

// The weights in a folder: model.safetensors, or the files that model.safetensors.index.json names.
class SafetensorsReader {
 public:
  // Error if there are none, or if a header is invalid: damaged, or with tensors that overlap, lie beyond the
  // end of the file or do not match their shape.
  explicit SafetensorsReader(const std::filesystem::path& folder);

  bool has(const std::string& name) const { return tensors_.contains(name); }
  // Throws Error if there is no tensor of that name.
  const std::vector<std::int64_t>& shape(const std::string& name) const { return find(name).shape; }
  // Throws Error if it has another shape than the folder's config.json gives it.
  void require_shape(const std::string& name, const std::vector<std::int64_t>& expected) const;
  // F64, F32, F16 and BF16. Error for other types, and for non-finite values.
  std::vector<double> read(const std::string& name) const;
  std::vector<std::string> names() const;
  // The file that a tensor is in. Throws Error if there is no tensor of that name.
  std::filesystem::path file_of(const std::string& name) const { return files_[find(name).file].path(); }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  struct Entry {
    std::size_t file = 0;
    std::string type;
    std::vector<std::int64_t> shape;
    std::int64_t begin = 0, bytes = 0;
  };
  const Entry& find(const std::string& name) const;
  void read_header(std::size_t file);

  std::filesystem::path folder_;
  std::vector<storage::FileDescriptor> files_;
  std::map<std::string, Entry> tensors_;
};

}  // namespace comera::exchange
