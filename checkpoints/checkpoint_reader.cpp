#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>

#include "checkpoints/checkpoint_file.h"
#include "checkpoints/envelope.h"
#include "storage/hash.h"
#include "storage/hdf5.h"

namespace comera {

namespace hdf5 = storage::hdf5;
using checkpoint_detail::TensorRecord;

struct CheckpointReader::State {
  std::filesystem::path path;
  std::vector<TensorRecord> records;
  std::vector<CheckpointTensor> tensors;
  hdf5::File file;
  std::optional<storage::FileDescriptor> bytes;  // of the same file
};

namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

[[noreturn]] void refuse_checksum(const std::filesystem::path& file, const std::string& tensor) {
  checkpoint_detail::refuse(file, fmt::format("is damaged: the checksum of '{}' is wrong", tensor));
}

AttributeValue read_attribute(const hdf5::File& file, const std::string& path,
                              const hdf5::AttributeInfo& info) {
  switch (info.kind) {
    case hdf5::AttributeKind::integer:
      return file.int64_attribute(path, info.name);
    case hdf5::AttributeKind::number:
      return file.double_attribute(path, info.name);
    case hdf5::AttributeKind::text:
      return file.string_attribute(path, info.name);
    case hdf5::AttributeKind::integer_list:
      break;
  }
  return file.int64_list_attribute(path, info.name);
}

void add_groups(const hdf5::File& file, const std::string& within, std::vector<std::string>& groups) {
  for (const std::string& name : file.children(within.empty() ? "/" : within)) {
    const std::string path = within + "/" + name;
    if (file.is_dataset(path)) continue;
    groups.push_back(path);
    add_groups(file, path, groups);
  }
}

// Identifies the file behind a name that may refer to several files over time.
std::array<std::int64_t, 5> identity_of(const std::filesystem::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {static_cast<std::int64_t>(status.st_dev), static_cast<std::int64_t>(status.st_ino), status.st_size,
          status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

}  // namespace

bool is_checkpoint(const std::filesystem::path& path) { return checkpoint_detail::is_sealed(path); }

CheckpointReader::CheckpointReader(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  // A continuing run may replace the file meanwhile: everything must be read from one file.
  constexpr int most_tries = 100;
  for (int tries = 1;; ++tries) {
    const auto before = identity_of(path);
    try {
      state_->records = checkpoint_detail::open_sealed(path);  // before HDF5 sees it
      state_->file = hdf5::File::open(path);
      state_->bytes.emplace(storage::FileDescriptor::open_to_read(path));
    } catch (const Error&) {
      if (identity_of(path) == before || tries == most_tries) throw;
      continue;
    }
    if (identity_of(path) == before || tries == most_tries) break;
  }
  for (const auto& record : state_->records) {
    hdf5::DatasetInfo info = state_->file.info(record.path);
    if (info.stored_bytes != record.bytes ||
        info.elements() * static_cast<std::int64_t>(size_of(info.dtype)) != record.bytes)
      checkpoint_detail::refuse(
          path, fmt::format("is damaged: '{}' has {} elements in {} bytes, and {} bytes in its manifest",
                            record.path, info.elements(), info.stored_bytes, record.bytes));
    state_->tensors.push_back({record.path, std::move(info.shape), info.dtype, record.checksum});
  }
  std::ranges::sort(state_->tensors, {}, &CheckpointTensor::path);
}

CheckpointReader::~CheckpointReader() = default;
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;

const std::filesystem::path& CheckpointReader::path() const { return state_->path; }
const std::vector<CheckpointTensor>& CheckpointReader::tensors() const { return state_->tensors; }

bool CheckpointReader::has_tensor(const std::string& path) const {
  return std::ranges::binary_search(state_->tensors, path, {}, &CheckpointTensor::path);
}

const CheckpointTensor& CheckpointReader::tensor(const std::string& path) const {
  const auto found = std::ranges::lower_bound(state_->tensors, path, {}, &CheckpointTensor::path);
  COMERA_CHECK(found != state_->tensors.end() && found->path == path, "{}: has no tensor '{}'",
               state_->path.string(), path);
  return *found;
}

std::size_t CheckpointReader::count(const std::string& path) const {
  std::int64_t elements = 1;
  for (const auto dim : tensor(path).shape) elements *= dim;
  return static_cast<std::size_t>(elements);
}

void CheckpointReader::read_raw(const std::string& path, DType dtype, void* data) const {
  const CheckpointTensor& found = tensor(path);
  COMERA_CHECK(found.dtype == dtype, "{}: '{}' is {}, but {} is expected", state_->path.string(), path,
               name_of(found.dtype), name_of(dtype));
  const std::size_t elements = count(path);
  state_->file.read(path, dtype, data, static_cast<std::int64_t>(elements));
  if (storage::checksum(data, elements * size_of(dtype)) != found.checksum)
    refuse_checksum(state_->path, path);
}

void CheckpointReader::read(const std::string& path, const Tensor& into) const {
  const CheckpointTensor& found = tensor(path);
  COMERA_CHECK(into.device().kind == DeviceKind::cpu, "checkpoint: '{}' is read into host memory only", path);
  COMERA_CHECK(std::ranges::equal(found.shape, into.shape().sizes()),
               "{}: '{}' has the shape {}, but {} is expected", state_->path.string(), path,
               text_of(found.shape), into.shape().text());
  read_raw(path, into.dtype(), into.raw());
}

std::string CheckpointReader::fingerprint() const {
  std::string seal(storage::seal_bytes, '\0');
  state_->bytes->read(0, seal.data(), storage::seal_bytes);
  return storage::hash128(seal).hex();
}

std::vector<std::string> CheckpointReader::groups() const {
  std::vector<std::string> groups;
  add_groups(state_->file, "", groups);
  return groups;
}

Attributes CheckpointReader::attributes(const std::string& path) const {
  Attributes values;
  if (!state_->file.exists(path)) return values;
  for (const auto& info : state_->file.attributes(path))
    values[info.name] = read_attribute(state_->file, path, info);
  return values;
}

std::int64_t CheckpointReader::integer(const std::string& path, const std::string& name) const {
  return state_->file.int64_attribute(path, name);
}
double CheckpointReader::number(const std::string& path, const std::string& name) const {
  return state_->file.double_attribute(path, name);
}
std::string CheckpointReader::text(const std::string& path, const std::string& name) const {
  return state_->file.string_attribute(path, name);
}
std::vector<std::int64_t> CheckpointReader::list(const std::string& path, const std::string& name) const {
  return state_->file.int64_list_attribute(path, name);
}

void CheckpointReader::verify() const {
  for (const auto& record : state_->records)
    if (storage::checksum(*state_->bytes, record.offset, record.bytes) != record.checksum)
      refuse_checksum(state_->path, record.path);
}

}  // namespace comera
