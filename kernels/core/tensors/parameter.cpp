#include "kernels/core/tensors/parameter.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>

#include "kernels/shared/philox.h"

namespace comera {

const char* name_of(ParameterRole role) {
  constexpr const char* names[] = {"core", "gate", "dense", "frozen"};
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
  std::ranges::stable_sort(layout_, {},
                           [this](ParameterId id) { return std::pair(infos_[id].role, infos_[id].by_rows); });
  const std::int64_t alignment = 64 / static_cast<std::int64_t>(size_of(dtype));
  offsets_.assign(size(), 0);
  mark_offsets_.assign(size(), 0);
  whole_ = 0;
  std::int64_t total = 0, trained = 0, rows = 0;
  for (ParameterId id : layout_) {
    offsets_[id] = total;
    if (infos_[id].by_rows) {
      COMERA_CHECK(infos_[id].role == ParameterRole::dense && infos_[id].shape.dims() == 2,
                   "{} is no dense table, and cannot change by rows", infos_[id].name);
      mark_offsets_[id] = rows;
      rows += infos_[id].shape[0];
    }
    total += (infos_[id].shape.elements() + alignment - 1) / alignment * alignment;
    if (!is_frozen(id)) trained = total;
    if (!is_frozen(id) && !infos_[id].by_rows) whole_ = total;
  }
  std::erase_if(layout_, [this](ParameterId id) { return is_frozen(id); });
  value_memory_ = Buffer(allocator, total * size_of(dtype), MemoryKind::parameters);
  values_ = product_values_ = value_memory_.tensor({total}, dtype);
  trained_values_ = values_.slice(0, {trained});
  if (compute != dtype) {
    product_memory_ = Buffer(allocator, total * size_of(compute), MemoryKind::parameters);
    product_values_ = product_memory_.tensor({total}, compute);
  }
  if (gradients) {
    gradient_memory_ = Buffer(allocator, trained * size_of(dtype), MemoryKind::gradients);
    gradients_ = gradient_memory_.tensor({trained}, dtype);
    mark_memory_ =
        Buffer(allocator, static_cast<std::size_t>(rows) * sizeof(std::int32_t), MemoryKind::gradients);
    if (rows > 0) marks_ = mark_memory_.tensor({rows}, DType::int32);
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
  const double deviation = initializer.kind == Initializer::Kind::orthogonal ? 1 : initializer.value;
  return deviation * std::sqrt(-2 * std::log(first)) * std::cos(2 * std::numbers::pi * second);
}

// Gram-Schmidt, twice for each row, since one pass leaves rounding errors of nearly parallel rows.
void make_orthogonal(std::span<double> matrix, std::int64_t columns, double length) {
  const auto row = [&](std::size_t i) { return matrix.subspan(i * columns, columns); };
  const auto product = [](std::span<const double> a, std::span<const double> b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  const auto scale = [](std::span<double> a, double by) {
    for (double& value : a) value *= by;
  };
  const std::size_t rows = matrix.size() / columns;
  for (std::size_t i = 0; i < rows; ++i) {
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t before = 0; before < i; ++before) {
        const double along = product(row(i), row(before));
        for (std::int64_t j = 0; j < columns; ++j) row(i)[j] -= along * row(before)[j];
      }
    scale(row(i), 1 / std::sqrt(product(row(i), row(i))));
  }
  scale(matrix, length);
}

}  // namespace

void ParameterStore::initialize(std::uint64_t seed) {
  for (ParameterId id = 0; id < size(); ++id) {
    const std::uint64_t stream = hash_of(infos_[id].name);
    std::vector<double> values(infos_[id].shape.elements());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = draw(infos_[id].initializer, seed, stream, i);
    if (infos_[id].initializer.kind == Initializer::Kind::orthogonal) {
      const Shape& shape = infos_[id].shape;
      const std::int64_t columns = shape[-1], size = shape[-2] * columns;
      COMERA_CHECK(shape[-2] <= columns, "'{}': {} rows of {} numbers are not orthogonal", infos_[id].name,
                   shape[-2], columns);
      for (std::size_t begin = 0; begin < values.size(); begin += size)
        make_orthogonal(std::span(values).subspan(begin, size), columns, infos_[id].initializer.value);
    }
    write_tensor(value(id), values, *allocator_);
  }
}

std::vector<ParameterRange> ParameterStore::block_ranges(int block) const {
  std::vector<ParameterRange> ranges;
  for (int role = 0; role < trained_roles; ++role)
    for (const bool by_rows : {false, true}) {
      std::int64_t begin = -1, end = -1;
      for (ParameterId id : layout_) {
        const ParameterInfo& info = infos_[id];
        if (info.block != block || static_cast<int>(info.role) != role || info.by_rows != by_rows) continue;
        if (begin < 0) begin = offsets_[id];
        end = offsets_[id] + info.shape.elements();
      }
      if (begin >= 0) ranges.push_back({begin, end - begin});
    }
  return ranges;
}

std::int64_t ParameterStore::count() const {
  return count(ParameterRole::core) + count(ParameterRole::dense) + count(ParameterRole::frozen);
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
