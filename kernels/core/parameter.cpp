#include "kernels/core/parameter.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <type_traits>

#include "kernels/shared/philox.h"

namespace comera {

const char* name_of(ParameterRole role) {
  constexpr const char* names[] = {"core", "gate", "dense"};
  return names[static_cast<int>(role)];
}

ParameterId ParameterStore::add(ParameterInfo info) {
  COMERA_CHECK(!find(info.name), "there are two parameters named '{}'", info.name);
  COMERA_CHECK(!values_, "'{}' was added after the parameters were laid out", info.name);
  info.block = block_;
  infos_.push_back(std::move(info));
  return size() - 1;
}

std::optional<ParameterId> ParameterStore::find(const std::string& name) const {
  for (ParameterId id = 0; id < size(); ++id)
    if (infos_[id].name == name) return id;
  return std::nullopt;
}

void ParameterStore::allocate(Allocator& allocator, DType compute, bool gradients) {
  const DType dtype = master_of(compute);
  dtype_ = dtype;
  compute_ = compute;
  allocator_ = &allocator;
  layout_.clear();
  for (ParameterId id = 0; id < size(); ++id) layout_.push_back(id);
  std::ranges::stable_sort(layout_, {}, [this](ParameterId id) { return infos_[id].role; });
  const std::int64_t alignment = 64 / static_cast<std::int64_t>(size_of(dtype));
  offsets_.assign(size(), 0);
  std::int64_t total = 0;
  for (ParameterId id : layout_) {
    offsets_[id] = total;
    total += (infos_[id].shape.elements() + alignment - 1) / alignment * alignment;
  }
  value_memory_ = Buffer(allocator, total * size_of(dtype), MemoryKind::parameters);
  values_ = product_values_ = value_memory_.tensor({total}, dtype);
  if (compute != dtype) {
    product_memory_ = Buffer(allocator, total * size_of(compute), MemoryKind::parameters);
    product_values_ = product_memory_.tensor({total}, compute);
  }
  if (gradients) {
    gradient_memory_ = Buffer(allocator, total * size_of(dtype), MemoryKind::gradients);
    gradients_ = gradient_memory_.tensor({total}, dtype);
  }
}

namespace {

std::uint64_t hash_of(const std::string& text) {  // FNV-1a
  std::uint64_t hash = 14695981039346656037ull;
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

double unit(std::uint32_t high, std::uint32_t low) {  // in (0, 1)
  const std::uint64_t bits = (static_cast<std::uint64_t>(high) << 21) ^ (low >> 11);
  return (static_cast<double>(bits) + 0.5) / 9007199254740992.0;
}

double draw(Initializer initializer, std::uint64_t seed, std::uint64_t stream, std::uint64_t element) {
  if (initializer.kind == Initializer::Kind::constant) return initializer.value;
  const Philox4 random =
      philox({{static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(element >> 32),
               static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}},
             seed);
  const double first = unit(random.word[0], random.word[1]), second = unit(random.word[2], random.word[3]);
  if (initializer.kind == Initializer::Kind::uniform) return initializer.value * (2 * first - 1);
  return initializer.value * std::sqrt(-2 * std::log(first)) * std::cos(2 * std::numbers::pi * second);
}

}  // namespace

void ParameterStore::initialize(std::uint64_t seed) {
  for (ParameterId id = 0; id < size(); ++id) {
    const std::uint64_t stream = hash_of(infos_[id].name);
    std::vector<double> values(infos_[id].shape.elements());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = draw(infos_[id].initializer, seed, stream, i);
    write_tensor(value(id), values, *allocator_);
  }
}

std::vector<ParameterRange> ParameterStore::block_ranges(int block) const {
  std::vector<ParameterRange> ranges;
  for (int role = 0; role < parameter_roles; ++role) {
    std::int64_t begin = -1, end = -1;
    for (ParameterId id : layout_) {
      if (infos_[id].block != block || static_cast<int>(infos_[id].role) != role) continue;
      if (begin < 0) begin = offsets_[id];
      end = offsets_[id] + infos_[id].shape.elements();
    }
    if (begin >= 0) ranges.push_back({begin, end - begin});
  }
  return ranges;
}

std::int64_t ParameterStore::count() const {
  return count(ParameterRole::core) + count(ParameterRole::dense);
}

std::int64_t ParameterStore::count(ParameterRole role) const {
  std::int64_t total = 0;
  for (const auto& info : infos_)
    if (info.role == role) total += info.shape.elements();
  return total;
}

void write_tensor(const Tensor& tensor, const std::vector<double>& values, Allocator& allocator) {
  COMERA_CHECK(static_cast<std::int64_t>(values.size()) == tensor.elements(),
               "{} values were given for a tensor {}", values.size(), tensor.shape().text());
  HostCopy copy(allocator, tensor);
  const auto set = [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    std::ranges::transform(values, to, [](double value) { return T(static_cast<float>(value)); });
  };
  if (tensor.dtype() == DType::float64)
    std::ranges::copy(values, copy.tensor().data<double>());
  else if (tensor.dtype() == DType::bfloat16)
    set(copy.tensor().data<bfloat16>());
  else
    set(copy.tensor().data<float>());
  copy.write();
}

std::vector<double> read_tensor(const Tensor& tensor, Allocator& allocator) {
  HostCopy copy(allocator, tensor);
  const Tensor& host = copy.read().tensor();
  if (tensor.dtype() == DType::float64) return {host.data<double>(), host.data<double>() + host.elements()};
  if (tensor.dtype() == DType::float32) return {host.data<float>(), host.data<float>() + host.elements()};
  std::vector<double> values(host.elements());
  std::ranges::transform(std::span(host.data<bfloat16>(), values.size()), values.begin(),
                         [](bfloat16 value) { return static_cast<float>(value); });
  return values;
}

}  // namespace comera
