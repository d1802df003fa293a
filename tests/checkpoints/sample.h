#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_directory.h"
#include "tests/support/temporary_folder.h"

namespace comera::test {

template <class T>
std::vector<T> counting(std::size_t count, T first = 0) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

template <class T>
Tensor view(std::vector<T>& values, Shape shape) {
  return Tensor(values.data(), shape, dtype_of<T>);
}

// A little of everything.
inline void fill_sample(CheckpointWriter& writer, double seed = 0) {
  auto core = counting<float>(24, static_cast<float>(seed));
  auto moment = counting<double>(6, seed);
  auto gate = counting<std::uint8_t>(7);
  auto ids = counting<std::int32_t>(5, -2);
  auto offsets = counting<std::int64_t>(4, std::int64_t{1} << 40);
  std::vector<float> none;
  writer.tensor("/model/layer_0/core", view(core, {2, 3, 4}),
                {{"role", "core"}, {"ranks", std::vector<std::int64_t>{1, 12, 1}}});
  writer.tensor("/optimizer/layer_0/core/m", view(moment, {6}));
  writer.tensor("/model/layer_0/gate", view(gate, {7}), {{"live", std::int64_t{5}}});
  writer.tensor("/data/ids", view(ids, {5, 1}));
  writer.tensor("/data/offsets", view(offsets, {4}));
  writer.tensor("/data/none", view(none, {0, 3}));
  writer.attributes("/trainer", {{"step", std::int64_t{12}}, {"loss", 0.1 + seed}, {"stage", "early"}});
  writer.attribute("/recipe", "toml", std::string(100000, 'x'));
}

inline void write_sample(const std::filesystem::path& path, double seed = 0) {
  CheckpointWriter writer(path);
  fill_sample(writer, seed);
  writer.commit();
}

// The whole content of a checkpoint, as bytes, for comparisons. Throws what reading throws.
inline std::string content_of(const std::filesystem::path& path) {
  const CheckpointReader reader(path);
  std::string all;
  const auto add_attributes = [&](const std::string& object) {
    for (const auto& [name, value] : reader.attributes(object)) {
      all += object + "@" + name + "=";
      if (const auto* integer = std::get_if<std::int64_t>(&value)) all += std::to_string(*integer);
      if (const auto* number = std::get_if<double>(&value)) all += fmt::format("{}", *number);
      if (const auto* text = std::get_if<std::string>(&value)) all += *text;
      if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
        for (const auto entry : *list) all += std::to_string(entry) + ",";
    }
  };
  for (const auto& tensor : reader.tensors()) {
    std::int64_t elements = 1;
    all += tensor.path + name_of(tensor.dtype);
    for (const auto dim : tensor.shape) {
      elements *= dim;
      all += fmt::format(" {}", dim);
    }
    std::string bytes(static_cast<std::size_t>(elements) * size_of(tensor.dtype), '\0');
    Shape shape = tensor.shape.size() == 1   ? Shape{tensor.shape[0]}
                  : tensor.shape.size() == 2 ? Shape{tensor.shape[0], tensor.shape[1]}
                                             : Shape{tensor.shape[0], tensor.shape[1], tensor.shape[2]};
    reader.read(tensor.path, Tensor(bytes.data(), shape, tensor.dtype));
    all += bytes;
    add_attributes(tensor.path);
  }
  add_attributes("/trainer");
  add_attributes("/recipe");
  return all;
}

}  // namespace comera::test
