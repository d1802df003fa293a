#include "exchange/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/core/check.h"
#include "storage/json_file.h"
#include "storage/small_file.h"

namespace comera::exchange {

namespace {

using Json = nlohmann::ordered_json;  // for writing: tensors in the order of their bytes
static_assert(std::endian::native == std::endian::little);

constexpr std::int64_t size_bytes = 8;
constexpr std::int64_t longest_header = 100'000'000;  // as in the reference implementation

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::int64_t size_of_type(const std::string& type) {
  static const std::map<std::string, std::int64_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"U16", 2}, {"I16", 2}, {"F16", 2},
      {"BF16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0x1f) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 1024, exponent - 25);
}

double from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

template <class T, class F>
void convert(const std::string& bytes, std::vector<double>& values, const F& to_double) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = to_double(value);
  }
}

// A list of numbers without fractions, which get() would truncate.
std::vector<std::int64_t> whole_numbers(const nlohmann::json& list, const std::string& name) {
  std::vector<std::int64_t> numbers;
  for (const nlohmann::json& number : list.get_ref<const nlohmann::json::array_t&>()) {
    COMERA_CHECK(number.is_number_integer(), "{}: is damaged: its header has {} for a size or an offset",
                 name, number.dump().substr(0, 40));
    numbers.push_back(number.get<std::int64_t>());
  }
  return numbers;
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  const std::filesystem::path single = folder / "model.safetensors",
                              index = folder / "model.safetensors.index.json";
  std::error_code code;
  if (std::filesystem::exists(single, code)) return {single};
  if (!std::filesystem::exists(index, code)) {
    const bool pickled = std::filesystem::exists(folder / "pytorch_model.bin", code);
    throw Error(fmt::format(
        "{}: holds neither model.safetensors nor model.safetensors.index.json{}", folder.string(),
        pickled ? "; pytorch_model.bin may hold any program and is not read: save the model as safetensors "
                  "(save_pretrained of transformers does)"
                : ""));
  }
  std::set<std::string> names;
  try {
    const auto json = storage::parse_json(
        storage::read_small_file(index, longest_header, "an index, a JSON file"), index.string() + ":");
    for (const auto& [tensor, file] : json.at("weight_map").items()) names.insert(file.get<std::string>());
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("{}: is damaged: it is not an index with a weight_map", index.string()));
  }
  std::vector<std::filesystem::path> files;
  for (const std::string& name : names) {
    COMERA_CHECK(std::filesystem::path(name).filename() == name, "{}: names a file outside its folder: {}",
                 index.string(), name);
    files.push_back(folder / name);
  }
  COMERA_CHECK(!files.empty(), "{}: is damaged: its weight_map names no file", index.string());
  return files;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  std::int64_t end = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::int64_t begin = end;
    end += count_of(tensor.shape) * std::int64_t{sizeof(float)};
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // values are aligned to their size
  storage::DurableFile durable(path);
  {
    const storage::FileDescriptor file = storage::FileDescriptor::create(durable.temporary());
    const auto size = static_cast<std::uint64_t>(text.size());
    std::string head(size_bytes, '\0');
    std::memcpy(head.data(), &size, sizeof size);
    file.write(0, head + text);
    std::int64_t at = size_bytes + std::ssize(text);
    for (const TensorToWrite& tensor : tensors) {
      const std::vector<double> values = tensor.values();
      COMERA_CHECK(std::ssize(values) == count_of(tensor.shape), "{}: has {} numbers, its shape needs {}",
                   tensor.name, values.size(), count_of(tensor.shape));
      std::string bytes(values.size() * sizeof(float), '\0');
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto value = static_cast<float>(values[i]);
        std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
      }
      file.write(at, bytes);
      at += std::ssize(bytes);
    }
    file.sync();
  }
  durable.commit();
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& folder) : folder_(folder) {
  for (const std::filesystem::path& file : files_of(folder)) {
    files_.push_back(storage::FileDescriptor::open_to_read(file));
    read_header(files_.size() - 1);
  }
}

void SafetensorsReader::read_header(std::size_t number) {
  const storage::FileDescriptor& file = files_[number];
  const std::string name = file.path().string();
  std::uint64_t size = 0;
  COMERA_CHECK(file.size() >= size_bytes, "{}: is not a safetensors file: it has {} bytes", name,
               file.size());
  file.read(0, &size, sizeof size);
  COMERA_CHECK(size <= longest_header && static_cast<std::int64_t>(size) <= file.size() - size_bytes,
               "{}: is not a safetensors file, or is truncated: its header would have {} bytes", name, size);
  std::string text(size, '\0');
  file.read(size_bytes, text.data(), static_cast<std::int64_t>(size));
  const std::int64_t data = size_bytes + static_cast<std::int64_t>(size), most = file.size() - data;
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  try {
    const nlohmann::json header = storage::parse_json(text, name + ": its header");
    COMERA_CHECK(header.is_object(),
                 "{}: is not a safetensors file, or is damaged: its header cannot be read", name);
    for (const auto& [key, value] : header.items()) {
      if (key == "__metadata__") continue;
      Entry entry{.file = number,
                  .type = value.at("dtype").get<std::string>(),
                  .shape = whole_numbers(value.at("shape"), name)};
      const std::vector<std::int64_t> offsets = whole_numbers(value.at("data_offsets"), name);
      COMERA_CHECK(offsets.size() == 2 && offsets[0] >= 0 && offsets[0] <= offsets[1] && offsets[1] <= most,
                   "{}: is damaged or truncated: {} lies outside the file", name, key);
      entry.begin = data + offsets[0];
      entry.bytes = offsets[1] - offsets[0];
      const std::int64_t element = size_of_type(entry.type);
      std::int64_t needed = element;
      for (const std::int64_t dim : entry.shape) {
        COMERA_CHECK(dim >= 0 && (needed == 0 || dim <= most / needed),
                     "{}: is damaged: {} has an impossible shape", name, key);
        needed *= dim;
      }
      COMERA_CHECK(element == 0 || needed == entry.bytes,
                   "{}: is damaged: {} has {} bytes, its shape needs {}", name, key, entry.bytes, needed);
      places.emplace_back(offsets[0], offsets[1]);
      COMERA_CHECK(tensors_.emplace(key, std::move(entry)).second, "{}: {} is also in another file",
                   folder_.string(), key);
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("{}: is not a safetensors file, or is damaged: its header cannot be read", name));
  }
  // The reference implementation requires every byte to belong to exactly one tensor.
  std::ranges::sort(places);
  std::int64_t end = 0;
  for (const auto& [first, last] : places) {
    COMERA_CHECK(first >= end, "{}: is damaged: two tensors share their bytes", name);
    COMERA_CHECK(first == end, "{}: is damaged: {} of its bytes belong to no tensor; get the file again",
                 name, first - end);
    end = last;
  }
  COMERA_CHECK(end == most, "{}: is damaged: {} bytes follow its last tensor; get the file again", name,
               most - end);
}

const SafetensorsReader::Entry& SafetensorsReader::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  COMERA_CHECK(found != tensors_.end(), "{}: its weights have no {}", folder_.string(), name);
  return found->second;
}

std::vector<std::string> SafetensorsReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : tensors_) names.push_back(name);
  return names;
}

void SafetensorsReader::require_shape(const std::string& name,
                                      const std::vector<std::int64_t>& expected) const {
  COMERA_CHECK(shape(name) == expected, "{}: {} is ({}), but config.json makes it ({})", folder_.string(),
               name, fmt::join(shape(name), ", "), fmt::join(expected, ", "));
}

std::vector<double> SafetensorsReader::read(const std::string& name) const {
  const Entry& entry = find(name);
  const std::string file = files_[entry.file].path().string();
  if (size_of_type(entry.type) == 0)
    throw Error(fmt::format("{}: {} has numbers of type {}; F64, F32, F16 and BF16 can be read", file, name,
                            entry.type));
  std::string bytes(static_cast<std::size_t>(entry.bytes), '\0');
  files_[entry.file].read(entry.begin, bytes.data(), entry.bytes);
  std::vector<double> values(static_cast<std::size_t>(count_of(entry.shape)));
  const auto same = [](auto value) { return static_cast<double>(value); };
  if (entry.type == "F32")
    convert<float>(bytes, values, same);
  else if (entry.type == "F64")
    convert<double>(bytes, values, same);
  else if (entry.type == "F16")
    convert<std::uint16_t>(bytes, values, from_half);
  else if (entry.type == "BF16")
    convert<std::uint16_t>(bytes, values, from_bfloat16);
  else
    throw Error(fmt::format("{}: {} has numbers of type {}; F64, F32, F16 and BF16 can be read", file, name,
                            entry.type));
  for (const double value : values)
    COMERA_CHECK(std::isfinite(value), "{}: {} has numbers that are not finite", file, name);
  return values;
}

}  // namespace comera::exchange
