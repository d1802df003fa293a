#include "checkpoints/float8_scales.h"

#include <fmt/format.h>

#include "kernels/core/check.h"

namespace comera {

namespace {

constexpr std::int64_t slots = Float8Slots::count;

std::string path_of(const std::string& layer, const char* what) {
  return fmt::format("{}{}/{}", float8_at, layer, what);
}

void write(CheckpointWriter& writer, const std::string& path, const Shape& shape,
           const std::vector<float>& values) {
  Buffer buffer(host_allocator(), values.size() * sizeof(float), MemoryKind::workspace);
  const Tensor tensor = buffer.tensor(shape, DType::float32);
  std::copy(values.begin(), values.end(), tensor.data<float>());
  writer.tensor(path, tensor);
}

}  // namespace

void save_float8(CheckpointWriter& writer, const Float8State& state) {
  for (const auto& [layer, of] : state.snapshot()) {
    write(writer, path_of(layer, "scale"), {slots}, of.scale);
    if (!of.history.empty())
      write(writer, path_of(layer, "history"), {slots, static_cast<std::int64_t>(of.history.size()) / slots},
            of.history);
  }
}

void load_float8(const CheckpointReader& reader, Float8State& state) {
  Float8State::Snapshot snapshot;
  for (const std::string& layer : state.layers()) {
    const std::string scale = path_of(layer, "scale"), history = path_of(layer, "history");
    if (!reader.has_tensor(scale)) continue;
    Float8State::Layer& of = snapshot[layer];
    of.scale = reader.read_values<float>(scale);
    if (reader.has_tensor(history)) of.history = reader.read_values<float>(history);
  }
  try {
    state.restore(snapshot);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", reader.path().string(), error.what()));
  }
}

void copy_float8(const CheckpointReader& from, CheckpointWriter& to) {
  for (const CheckpointTensor& tensor : from.tensors()) {
    if (!tensor.path.starts_with(float8_at)) continue;
    Shape shape = tensor.shape.size() == 2 ? Shape{tensor.shape[0], tensor.shape[1]} : Shape{tensor.shape[0]};
    write(to, tensor.path, shape, from.read_values<float>(tensor.path));
  }
}

}  // namespace comera
