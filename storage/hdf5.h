#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/check.h"
#include "kernels/core/tensors/dtype.h"

// The project's use of HDF5 files: groups, numeric datasets, attributes. Objects are named by their path
// inside the file ("/", "/model/layer_0", "tokens").
//
// Every failed call throws Error with the file's name, the attempted operation and the system's reason ("No
// space left on device"). HDF5 need not be thread-safe: every call here holds a lock of the process, so files
// may be used from any thread, one thread per object at a time.
namespace comera::storage::hdf5 {

struct State;  // an open file

struct DatasetInfo {
  std::vector<std::int64_t> shape;  // no dimensions: a scalar
  // The smallest of our types that holds the file's values: uint8, int32, int64, float32 or float64.
  DType dtype = DType::int32;
  std::int64_t stored_bytes =
      0;  // that the values take in the file, compressed or not; 0 if none were written

  std::int64_t elements() const;
  std::int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
};

struct CreateOptions {
  std::int64_t user_block = 0;  // bytes at the file's start reserved for other uses: 0, 512, 1024, ...
};

// The type given to set_attribute().
enum class AttributeKind : std::uint8_t { integer, number, text, integer_list };

struct AttributeInfo {
  std::string name;
  AttributeKind kind = AttributeKind::integer;
};

struct ByteRange {
  std::int64_t offset = 0;  // from the start of the file
  std::int64_t bytes = 0;
};

struct StreamOptions {
  std::int64_t chunk_rows = 16384;
  bool checksum = true;  // Fletcher-32 per chunk: reading a flipped bit is an error
  int deflate = 0;       // gzip compression, 1 to 9; 0: none
};

// An open dataset, to be extended or read by rows (its first axis).
class Dataset {
 public:
  Dataset() = default;
  Dataset(Dataset&& other) noexcept { swap(other); }
  Dataset& operator=(Dataset&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Dataset();

  const DatasetInfo& info() const { return info_; }
  std::int64_t rows() const { return info_.rows(); }

  // Appends whole rows. T may be any of the five types; HDF5 converts.
  template <class T>
  void append(std::span<const T> values) {
    append(dtype_of<T>, values.data(), static_cast<std::int64_t>(values.size()));
  }
  void append(DType dtype, const void* data, std::int64_t elements);

  // Rows [begin, begin + count).
  template <class T>
  std::vector<T> read_rows(std::int64_t begin, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count * row_elements()));
    read_rows(begin, count, dtype_of<T>, values.data());
    return values;
  }
  void read_rows(std::int64_t begin, std::int64_t count, DType dtype, void* data) const;

 private:
  friend class File;
  std::int64_t row_elements() const;
  void swap(Dataset& other) noexcept;

  std::shared_ptr<State> file_;
  std::int64_t id_ = -1;
  std::string name_;
  DatasetInfo info_;
};

class File {
 public:
  // Creates a file; Error if the name is taken, even by a link. The same content gives the same bytes: no
  // times are recorded.
  static File create(const std::filesystem::path& path, const CreateOptions& options = {});
  // Read only. An empty, foreign or truncated file is an Error that says which.
  static File open(const std::filesystem::path& path);
  // Opens for changes.
  static File modify(const std::filesystem::path& path);

  File() = default;
  File(File&& other) noexcept { state_.swap(other.state_); }
  File& operator=(File&& other) noexcept {
    state_.swap(other.state_);
    return *this;
  }
  ~File();  // closes; a failure is only logged: call close() to see it

  bool is_open() const;
  std::string name() const;

  void flush();
  // Flushes and closes the file and all its Datasets. Throws if anything could not be written.
  void close();

  bool exists(std::string_view path) const;
  bool is_dataset(std::string_view path) const;
  // Also creates missing parent groups; an existing group is left alone.
  void create_group(std::string_view path);
  // Names within a group, sorted.
  std::vector<std::string> children(std::string_view group = "/") const;

  DatasetInfo info(std::string_view path) const;
  // Whole datasets; parent groups are created. An empty shape means one dimension.
  template <class T>
  void write(std::string_view path, std::span<const T> values, std::vector<std::int64_t> shape = {}) {
    if (shape.empty()) shape = {static_cast<std::int64_t>(values.size())};
    write(path, dtype_of<T>, shape, values.data());
  }
  template <class T>
  void write(std::string_view path, const std::vector<T>& values, std::vector<std::int64_t> shape = {}) {
    write(path, std::span<const T>(values), std::move(shape));
  }
  void write(std::string_view path, DType dtype, const std::vector<std::int64_t>& shape, const void* data);

  template <class T>
  std::vector<T> read(std::string_view path) const {
    std::vector<T> values(static_cast<std::size_t>(info(path).elements()));
    read(path, dtype_of<T>, values.data(), static_cast<std::int64_t>(values.size()));
    return values;
  }
  // elements must be the dataset's count.
  void read(std::string_view path, DType dtype, void* data, std::int64_t elements) const;

  // The position of the values of a dataset made by write(); nothing if it has no elements.
  ByteRange data_range(std::string_view path) const;

  // An extensible dataset without rows; a row has the shape row_shape (empty: a number).
  Dataset create_dataset(std::string_view path, DType dtype, const std::vector<std::int64_t>& row_shape = {},
                         const StreamOptions& options = {});
  Dataset dataset(std::string_view path) const;

  // Attributes of the group or dataset at path; setting replaces.
  bool has_attribute(std::string_view path, std::string_view name) const;
  // Sorted by name.
  std::vector<AttributeInfo> attributes(std::string_view path) const;
  void set_attribute(std::string_view path, std::string_view name, std::int64_t value);
  void set_attribute(std::string_view path, std::string_view name, double value);
  void set_attribute(std::string_view path, std::string_view name, std::string_view value);
  void set_attribute(std::string_view path, std::string_view name, const std::vector<std::int64_t>& values);
  std::int64_t int64_attribute(std::string_view path, std::string_view name) const;
  double double_attribute(std::string_view path, std::string_view name) const;
  std::string string_attribute(std::string_view path, std::string_view name) const;
  std::vector<std::int64_t> int64_list_attribute(std::string_view path, std::string_view name) const;

 private:
  static File open_existing(const std::filesystem::path& path, bool writable);

  std::shared_ptr<State> state_;
};

}  // namespace comera::storage::hdf5
