#include "tests/attack/content.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "checkpoints/envelope.h"
#include "data/shard.h"
#include "storage/hdf5.h"
#include "tests/attack/mutate.h"

namespace comera::attack {

namespace hdf5 = storage::hdf5;

namespace {

AttributeValue value_of(const hdf5::File& file, const std::string& path, const hdf5::AttributeInfo& info) {
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

void read_attributes(const hdf5::File& file, const std::string& path, Content& content) {
  for (const hdf5::AttributeInfo& info : file.attributes(path))
    content.attributes[path][info.name] = value_of(file, path, info);
}

void read_group(const hdf5::File& file, const std::string& group, Content& content) {
  read_attributes(file, group, content);
  for (const std::string& name : file.children(group)) {
    const std::string path = (group == "/" ? "" : group) + "/" + name;
    if (!file.is_dataset(path)) {
      content.attributes[path];
      read_group(file, path, content);
      continue;
    }
    const hdf5::DatasetInfo info = file.info(path);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(info.elements()) * size_of(info.dtype));
    file.read(path, info.dtype, bytes.data(), info.elements());
    content.datasets.push_back({path, info.dtype, info.shape, std::move(bytes)});
    read_attributes(file, path, content);
  }
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

Content::Content(const fs::path& file) { read_group(hdf5::File::open(file), "/", *this); }

void Content::write(const fs::path& path, Seal seal) const {
  std::vector<checkpoint_detail::TensorRecord> records;
  {
    fs::remove(path);  // only new ones are created
    hdf5::File file = hdf5::File::create(path, {.user_block = seal == Seal::none ? 0 : storage::seal_bytes});
    for (const Dataset& dataset : datasets) {
      if (file.exists(dataset.path)) continue;  // renamed to a name that there was
      file.write(dataset.path, dataset.dtype, dataset.shape, dataset.bytes.data());
      const hdf5::ByteRange range = file.data_range(dataset.path);
      records.push_back({dataset.path, range.offset, range.bytes,
                         storage::checksum(dataset.bytes.data(), dataset.bytes.size())});
    }
    for (const auto& [object, values] : attributes) {
      if (!file.exists(object)) file.create_group(object);
      for (const auto& [name, value] : values)
        std::visit([&, &object = object,
                    &name = name](const auto& typed) { file.set_attribute(object, name, typed); },
                   value);
    }
    file.close();
  }
  if (seal == Seal::shard) storage::seal(path, data::shard_seal);
  if (seal == Seal::checkpoint)
    checkpoint_detail::seal(storage::FileDescriptor::open_to_change(path), records);
}

std::string Content::change(Chance& chance) {
  const bool has_attributes =
      std::ranges::any_of(attributes, [](const auto& object) { return !object.second.empty(); });
  return datasets.empty() || (has_attributes && chance.one_in(2)) ? change_attribute(chance)
                                                                  : change_dataset(chance);
}

std::string Content::change_values(Chance& chance, Dataset& dataset) const {
  constexpr double extremes[] = {NAN, INFINITY, -INFINITY, 3e38, -3e38, 1e30,         1e-45,
                                 0,   -1,       1,         0.5,  1e6,   2147483647.0, -2147483648.0};
  const double value = chance.pick(extremes);
  const std::int64_t count = elements_of(dataset.shape);
  if (count == 0) return "nothing to change in " + dataset.path;
  const bool all = chance.one_in(4), random = chance.one_in(4);
  const auto set = [&](auto type) {
    using T = decltype(type);
    auto* values = reinterpret_cast<T*>(dataset.bytes.data());
    const std::int64_t begin = all ? 0 : chance.between(0, count - 1), end = all ? count : begin + 1;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t bits = chance.bits();
      if (random)
        std::memcpy(values + i, &bits, sizeof(T));
      else if constexpr (std::is_floating_point_v<T>)
        values[i] = static_cast<T>(value);
      else
        values[i] = !std::isfinite(value) || std::abs(value) > 9e18
                        ? std::numeric_limits<T>::max()
                        : static_cast<T>(static_cast<std::int64_t>(value));
    }
  };
  if (dataset.dtype == DType::float32) set(float{});
  if (dataset.dtype == DType::float64) set(double{});
  if (dataset.dtype == DType::int64) set(std::int64_t{});
  if (dataset.dtype == DType::int32) set(std::int32_t{});
  if (dataset.dtype == DType::uint8) set(std::uint8_t{});
  return fmt::format("{} in {}{}", all ? "all numbers" : "a number", dataset.path,
                     random ? " random" : fmt::format(" = {}", value));
}

std::string Content::change_dataset(Chance& chance) {
  const std::size_t at = chance.below(datasets.size());
  Dataset& dataset = datasets[at];
  const std::string path = dataset.path;
  switch (chance.below(9)) {
    case 0:
      datasets.erase(datasets.begin() + static_cast<std::ptrdiff_t>(at));
      attributes.erase(path);
      return path + " left out";
    case 1: {
      dataset.path = chance.one_in(2) ? path + "x" : chance.pick(datasets).path;
      attributes.erase(path);
      return path + " renamed to " + dataset.path;
    }
    case 2: {
      std::ranges::reverse(dataset.shape);
      if (chance.one_in(2)) dataset.shape = {elements_of(dataset.shape)};
      if (chance.one_in(3)) dataset.shape.insert(dataset.shape.begin(), 1);
      return fmt::format("{} shaped {}", path, fmt::join(dataset.shape, ","));
    }
    case 3: {
      if (dataset.shape.empty() || dataset.shape[0] == 0) return "nothing to change in " + path;
      const std::size_t row = dataset.bytes.size() / static_cast<std::size_t>(dataset.shape[0]);
      dataset.shape[0] =
          chance.one_in(4) ? 0 : std::max<std::int64_t>(0, dataset.shape[0] + chance.between(-3, 3));
      dataset.bytes.resize(row * static_cast<std::size_t>(dataset.shape[0]));
      return fmt::format("{} of {} rows", path, dataset.shape[0]);
    }
    case 4: {
      constexpr DType types[] = {DType::float32, DType::float64, DType::int64, DType::int32, DType::uint8};
      dataset.dtype = chance.pick(types);
      dataset.bytes.resize(static_cast<std::size_t>(elements_of(dataset.shape)) * size_of(dataset.dtype));
      return path + " of another type";
    }
    case 5: {
      Dataset second = dataset;
      second.path = path + ".copy";
      datasets.push_back(std::move(second));
      return path + " twice";
    }
    default:
      return change_values(chance, dataset);
  }
}

std::string Content::change_attribute(Chance& chance) {
  constexpr std::int64_t integers[] = {0, -1, 1, 2, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN};
  constexpr double numbers[] = {0, -1, NAN, INFINITY, -INFINITY, 1e308, 1e-320, 1};
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [object, values] : attributes)
    for (const auto& [name, value] : values) all.emplace_back(object, name);
  const auto [object, name] = chance.pick(all);
  AttributeValue& value = attributes[object][name];
  const std::string what = fmt::format("{} of {}", name, object);
  switch (chance.below(8)) {
    case 0:
      attributes[object].erase(name);
      return what + " left out";
    case 1:
      value = AttributeValue(chance.pick(integers));
      return what + " an integer";
    case 2:
      value = AttributeValue(chance.pick(numbers));
      return what + " a number";
    case 3:
      value = AttributeValue(std::string(chance.below(40), static_cast<char>(chance.below(256))));
      return what + " a text";
    case 4: {
      const auto other = chance.pick(all);
      value = AttributeValue(attributes[other.first][other.second]);
      return fmt::format("{} as {} of {}", what, other.second, other.first);
    }
    default:
      break;
  }
  if (auto* text = std::get_if<std::string>(&value)) {
    *text = name == "toml" ? mutated_toml(chance, *text) : mutated_text(chance, *text);
    std::erase(*text, '\0');  // HDF5's texts end with it
    return what + " changed";
  }
  if (auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
    if (list->empty() || chance.one_in(3))
      list->push_back(chance.pick(integers));
    else if (chance.one_in(2))
      list->pop_back();
    else
      (*list)[chance.below(list->size())] = chance.pick(integers);
    return fmt::format("{} = {}", what, fmt::join(*list, ","));
  }
  if (auto* integer = std::get_if<std::int64_t>(&value)) {
    *integer = chance.one_in(2) ? *integer + chance.between(-2, 2) : chance.pick(integers);
    return fmt::format("{} = {}", what, *integer);
  }
  value = AttributeValue(chance.pick(numbers));
  return what + " another number";
}

}  // namespace comera::attack
