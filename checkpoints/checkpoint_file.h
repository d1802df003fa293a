#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/core/tensors/tensor.h"

// A checkpoint is an HDF5 file (wrapped: see envelope.h) of named tensors, and of attributes on tensors and
// groups. Only the code that saves and loads knows what the names mean: "/model/embedding/core_0",
// "/optimizer/embedding/core_0/m", attribute "step" of "/trainer", attribute "toml" of "/recipe". The same
// content always gives the same bytes. Any defect of a file is an Error that names the file.
namespace comera {

using AttributeValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;
using Attributes = std::map<std::string, AttributeValue>;

// Whether a file begins like a checkpoint, whatever its name.
bool is_checkpoint(const std::filesystem::path& path);

// Writes under a temporary name; without commit() nothing is left.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(std::filesystem::path path);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Writes a tensor in host memory immediately. `path` is absolute: "/model/weight".
  void tensor(const std::string& path, const Tensor& tensor, const Attributes& attributes = {});
  // Writes an attribute of an existing tensor or of a group, which is created if necessary.
  void attribute(const std::string& path, const std::string& name, const AttributeValue& value);
  void attributes(const std::string& path, const Attributes& values);

  // Completes the file, waits until it is on disk and gives it its final name, replacing a file of that name.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct CheckpointTensor {
  std::string path;
  std::vector<std::int64_t> shape;
  DType dtype = DType::float32;
  std::uint32_t checksum = 0;  // of the values: equal tensors have equal checksums

  friend bool operator==(const CheckpointTensor&, const CheckpointTensor&) = default;
};

class CheckpointReader {
 public:
  // Verifies everything except the tensors' values, so that names, shapes and attributes can be compared
  // quickly.
  explicit CheckpointReader(const std::filesystem::path& path);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;

  const std::filesystem::path& path() const;
  const std::vector<CheckpointTensor>& tensors() const;  // sorted by path
  // The tensor with that name; throws if there is none.
  const CheckpointTensor& tensor(const std::string& path) const;
  bool has_tensor(const std::string& path) const;

  // Reads into host memory of exactly the tensor's shape and type. Verifies the checksum.
  void read(const std::string& path, const Tensor& into) const;
  template <class T>
  std::vector<T> read_values(const std::string& path) const {
    std::vector<T> values(count(path));
    read_raw(path, dtype_of<T>, values.data());
    return values;
  }

  // 32 hexadecimal digits of the file's seal, which covers every byte of the file.
  std::string fingerprint() const;

  // All groups but the root, each after its parent.
  std::vector<std::string> groups() const;
  // Attributes of a group or a tensor. Empty if there is no such object.
  Attributes attributes(const std::string& path) const;
  // One attribute. Throws if it is absent or of another type; an integer also counts as a number.
  std::int64_t integer(const std::string& path, const std::string& name) const;
  double number(const std::string& path, const std::string& name) const;
  std::string text(const std::string& path, const std::string& name) const;
  std::vector<std::int64_t> list(const std::string& path, const std::string& name) const;

  // Reads every tensor's bytes and throws if a checksum is wrong.
  void verify() const;

 private:
  std::size_t count(const std::string& path) const;
  void read_raw(const std::string& path, DType dtype, void* data) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace comera
