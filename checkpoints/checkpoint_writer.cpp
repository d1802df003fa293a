#include "checkpoints/checkpoint_file.h"
#include "checkpoints/envelope.h"
#include "storage/durable_file.h"
#include "storage/hdf5.h"

namespace comera {

namespace hdf5 = storage::hdf5;

struct CheckpointWriter::State {
  explicit State(std::filesystem::path path) : durable(std::move(path)) {}
  ~State();  // also if the file could not be started

  storage::DurableFile durable;
  hdf5::File file;
  std::vector<checkpoint_detail::TensorRecord> tensors;
};

CheckpointWriter::State::~State() {
  try {
    if (file.is_open()) file.close();
  } catch (const std::exception&) {
    // The error was thrown before, or the file is no longer needed.
  }
}

CheckpointWriter::CheckpointWriter(std::filesystem::path path)
    : state_(std::make_unique<State>(std::move(path))) {
  state_->file = hdf5::File::create(state_->durable.temporary(), {.user_block = storage::seal_bytes});
}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::tensor(const std::string& path, const Tensor& tensor, const Attributes& values) {
  COMERA_CHECK(path.size() > 1 && path[0] == '/' && path.find('\n') == path.npos,
               "a checkpoint's tensor needs a name such as '/model/weight', not '{}'", path);
  COMERA_CHECK(tensor.device().kind == DeviceKind::cpu, "checkpoint: '{}' is not in the host's memory", path);
  COMERA_CHECK(tensor.shape().dims() > 0, "checkpoint: '{}' has no shape", path);
  COMERA_CHECK(!state_->file.exists(path), "{}: '{}' is written twice", state_->durable.path().string(),
               path);
  const auto sizes = tensor.shape().sizes();
  state_->file.write(path, tensor.dtype(), {sizes.begin(), sizes.end()}, tensor.raw());
  state_->tensors.push_back({path, 0, 0, storage::checksum(tensor.raw(), tensor.bytes())});
  for (const auto& [name, value] : values) attribute(path, name, value);
}

void CheckpointWriter::attribute(const std::string& path, const std::string& name,
                                 const AttributeValue& value) {
  if (!state_->file.exists(path)) state_->file.create_group(path);
  std::visit([&](const auto& typed) { state_->file.set_attribute(path, name, typed); }, value);
}

void CheckpointWriter::attributes(const std::string& path, const Attributes& values) {
  if (!state_->file.exists(path)) state_->file.create_group(path);
  for (const auto& [name, value] : values) attribute(path, name, value);
}

void CheckpointWriter::commit() {
  for (auto& tensor : state_->tensors) {
    const hdf5::ByteRange range = state_->file.data_range(tensor.path);
    tensor.offset = range.offset;
    tensor.bytes = range.bytes;
  }
  state_->file.close();
  checkpoint_detail::seal(storage::FileDescriptor::open_to_change(state_->durable.temporary()),
                          state_->tensors);
  state_->durable.commit();
}

}  // namespace comera
