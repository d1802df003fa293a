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

// A checkpoint is an HDF5 file (inside, see envelope.h) of named tensors, and of attributes on tensors and
// groups. What the names mean is the business of those who save and load: "/model/embedding/core_0",
// "/optimizer/embedding/core_0/m", attribute "step" of "/trainer", attribute "toml" of "/recipe".
// The same content always gives the same bytes. Everything wrong with a file is an Error that names it.
namespace comera {

using AttributeValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;
using Attributes = std::map<std::string, AttributeValue>;

// Whether a file begins as a checkpoint does, whatever its name.
bool is_checkpoint(const std::filesystem::path& path);

// Writes under a temporary name; without commit() nothing of it is left.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(std::filesystem::path path);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // The tensor lies in the host's memory and is written at once. `path` is absolute: "/model/weight".
  void tensor(const std::string& path, const Tensor& tensor, const Attributes& attributes = {});
  // An attribute of a tensor that was written or of a group, which is made if need be.
  void attribute(const std::string& path, const std::string& name, const AttributeValue& value);
  void attributes(const std::string& path, const Attributes& values);

  // Completes the file, waits until the disk has it and gives it its name, replacing a file of that name.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct CheckpointTensor {
  std::string path;
  std::vector<std::int64_t> shape;
  DType dtype = DType::float32;
  std::uint32_t checksum = 0;  // of the numbers: equal tensors have equal ones

  friend bool operator==(const CheckpointTensor&, const CheckpointTensor&) = default;
};

class CheckpointReader {
 public:
  // Verifies everything but the tensors' numbers, so that names, shapes and attributes can be compared
  // quickly.
  explicit CheckpointReader(const std::filesystem::path& path);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;

  const std::filesystem::path& path() const;
  const std::vector<CheckpointTensor>& tensors() const;  // sorted by path
  // The tensor of that name; throws when there is none.
  const CheckpointTensor& tensor(const std::string& path) const;
  bool has_tensor(const std::string& path) const;

  // Into host memory of exactly the tensor's shape and type. Verifies the checksum.
  void read(const std::string& path, const Tensor& into) const;
  template <class T>
  std::vector<T> read_values(const std::string& path) const {
    std::vector<T> values(count(path));
    read_raw(path, dtype_of<T>, values.data());
    return values;
  }

  // 32 hexadecimal digits of all that is in the file: of its seal, which vouches for every byte.
  std::string fingerprint() const;

  // All groups but the root, each after the one it is in.
  std::vector<std::string> groups() const;
  // Of a group or a tensor. Empty when there is no object of that name.
  Attributes attributes(const std::string& path) const;
  // One attribute. Throws when it is absent or of another type; an integer also counts as a number.
  std::int64_t integer(const std::string& path, const std::string& name) const;
  double number(const std::string& path, const std::string& name) const;
  std::string text(const std::string& path, const std::string& name) const;
  std::vector<std::int64_t> list(const std::string& path, const std::string& name) const;

  // Reads every tensor's bytes and throws when a checksum is wrong.
  void verify() const;

 private:
  std::size_t count(const std::string& path) const;
  void read_raw(const std::string& path, DType dtype, void* data) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace comera
