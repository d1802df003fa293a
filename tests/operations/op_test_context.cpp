#include "tests/operations/op_test_context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/core/tensors/poison.h"
#include "kernels/shared/philox.h"

namespace comera::test {

namespace {

constexpr std::size_t fence = 128;  // bytes before and behind each tensor
constexpr std::byte fence_byte{0xA5};

template <class T>
std::vector<T> drawn(std::int64_t count, std::uint32_t site, double range, DType exact) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const Philox4 bits = philox({{static_cast<std::uint32_t>(i), site, 0, 0}}, 42);
    auto value = static_cast<float>((bits.word[0] / 4294967296.0 * 2 - 1) * range);
    if (exact == DType::bfloat16) value = static_cast<float>(bfloat16(value));
    values.push_back(T(value));
  }
  return values;
}

std::vector<double> numbers(const std::vector<std::byte>& bits, DType dtype) {
  std::vector<double> values;
  for (std::size_t i = 0; i < bits.size(); i += size_of(dtype)) {
    bfloat16 narrow;
    float8_e4m3 e4m3;
    float8_e5m2 e5m2;
    float single = 0;
    std::int32_t integer = 0;
    std::int64_t long_integer = 0;
    double number = 0;
    if (dtype == DType::float8_e4m3)
      std::memcpy(&e4m3, &bits[i], sizeof e4m3), number = static_cast<float>(e4m3);
    else if (dtype == DType::float8_e5m2)
      std::memcpy(&e5m2, &bits[i], sizeof e5m2), number = static_cast<float>(e5m2);
    else if (dtype == DType::int64)
      std::memcpy(&long_integer, &bits[i], sizeof long_integer), number = static_cast<double>(long_integer);
    else if (dtype == DType::int32)
      std::memcpy(&integer, &bits[i], sizeof integer), number = integer;
    else if (dtype == DType::uint8)
      number = std::to_integer<int>(bits[i]);
    else if (dtype == DType::bfloat16)
      std::memcpy(&narrow, &bits[i], sizeof narrow), number = static_cast<float>(narrow);
    else if (dtype == DType::float32)
      std::memcpy(&single, &bits[i], sizeof single), number = single;
    else
      std::memcpy(&number, &bits[i], sizeof number);
    values.push_back(number);
  }
  return values;
}

}  // namespace

Tensor OpTestContext::make(const std::string& name, Shape shape, DType dtype, const void* contents) {
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  std::vector<std::byte> host(bytes + 2 * fence, fence_byte);
  if (bytes > 0) std::memcpy(&host[fence], contents, bytes);
  Block& block = blocks_.emplace_back();
  block.name = name;
  block.memory = Buffer(allocator_, host.size(), MemoryKind::workspace);
  block.tensor =
      Tensor(static_cast<std::byte*>(block.memory.data()) + fence, shape, dtype, allocator_.device());
  allocator_.upload(block.memory.data(), host.data(), host.size(), allocator_.stream());
  allocator_.synchronize(allocator_.stream());
  guard(block);
  return block.tensor;
}

void OpTestContext::spoil(Arena& arena, std::size_t bytes) const {
  if (bytes == 0) return;
  // What lies between tensors for AddressSanitizer.
  Arena one = Arena::measuring(allocator_.device()), two = Arena::measuring(allocator_.device());
  constexpr std::int64_t whole = 4096;  // a multiple of what sizes are rounded to
  ArenaScope(one).tensor({whole}, DType::uint8), ArenaScope(two).tensor({2 * whole}, DType::uint8);
  bytes -= 2 * one.peak().total - two.peak().total;
  if (bytes == 0) return;
  ArenaScope scope(arena);
  const Tensor all = scope.tensor({static_cast<std::int64_t>(bytes)}, DType::uint8);
  const std::vector<std::byte> ones(bytes, std::byte{0xff});
  allocator_.upload(all.raw(), ones.data(), bytes, allocator_.stream());
  allocator_.synchronize(allocator_.stream());
}

void OpTestContext::guard(const Block& block) const {
  const auto* data = static_cast<const std::byte*>(block.memory.data());
  poison(data, fence);
  poison(data + fence + block.tensor.bytes(), fence);
}

void OpTestContext::unguard(const Block& block) const { unpoison(block.memory.data(), block.memory.bytes()); }

Tensor OpTestContext::draw(const std::string& name, Shape shape, DType dtype, double range, DType exact) {
  const std::uint32_t site = drawn_++;
  const std::int64_t count = shape.elements();
  const auto make_of = [&](auto values) {
    using Value = typename decltype(values)::value_type;
    if (planted_ == site && count > 0) values[count / 2] = Value(std::numeric_limits<float>::quiet_NaN());
    return make(name, shape, dtype, values.data());
  };
  if (dtype == DType::bfloat16) return make_of(drawn<bfloat16>(count, site, range, exact));
  if (dtype == DType::float32) return make_of(drawn<float>(count, site, range, exact));
  return make_of(drawn<double>(count, site, range, exact));
}

Tensor OpTestContext::input(Shape shape, double range) { return draw("", shape, compute_, range, exact_); }

Tensor OpTestContext::output(const std::string& name, Shape shape, double range) {
  return draw(name, shape, compute_, range, exact_);
}

Tensor OpTestContext::master(Shape shape, double range) {
  return draw("", shape, master_of(compute_), range, DType::float32);
}

Tensor OpTestContext::master_output(const std::string& name, Shape shape, double range) {
  return draw(name, shape, master_of(compute_), range, DType::float32);
}

Tensor OpTestContext::statistic(const std::string& name, Shape shape) {
  const Tensor tensor = master_output(name, shape);
  blocks_.back().is_statistic = true;
  return tensor;
}

Tensor OpTestContext::chosen(const std::string& name, Shape shape, const std::vector<float>& values) {
  const auto make_of = [&](auto zero) {
    std::vector<decltype(zero)> converted;
    for (const float value : values) converted.emplace_back(value);
    return make(name, shape, compute_, converted.data());
  };
  if (compute_ == DType::bfloat16) return make_of(bfloat16());
  return compute_ == DType::float32 ? make_of(0.F) : make_of(0.);
}

Tensor OpTestContext::chosen_master(Shape shape, const std::vector<float>& values) {
  if (master_of(compute_) == DType::float32) return make("", shape, DType::float32, values.data());
  return make("", shape, DType::float64, std::vector<double>(values.begin(), values.end()).data());
}

Tensor OpTestContext::output_double(const std::string& name, Shape shape) {
  return draw(name, shape, DType::float64, 1, DType::float32);
}

Tensor OpTestContext::chosen_double(const std::string& name, const std::vector<double>& values) {
  return make(name, {static_cast<std::int64_t>(values.size())}, DType::float64, values.data());
}

Tensor OpTestContext::chosen_float(const std::string& name, const std::vector<float>& values) {
  return make(name, {static_cast<std::int64_t>(values.size())}, DType::float32, values.data());
}

Tensor OpTestContext::chosen_integer(const std::string& name, std::int64_t value) {
  return make(name, {1}, DType::int64, &value);
}

Tensor OpTestContext::chosen_integers(const std::string& name, const std::vector<std::int32_t>& values) {
  return make(name, {std::ssize(values)}, DType::int32, values.data());
}

Tensor OpTestContext::codes(const std::string& name, Shape shape, DType type, double range, bool whole) {
  const auto drawn_codes = [&](auto zero) {
    using F = decltype(zero);
    std::vector<F> values;
    for (const float value : drawn<float>(shape.elements(), drawn_++, range, DType::float32))
      values.emplace_back(whole ? std::nearbyint(value) : value);
    return make(name, shape, type, values.data());
  };
  return type == DType::float8_e4m3 ? drawn_codes(float8_e4m3()) : drawn_codes(float8_e5m2());
}

Tensor OpTestContext::integers(const std::vector<std::int32_t>& values) {
  return make("", {static_cast<std::int64_t>(values.size())}, DType::int32, values.data());
}

Tensor OpTestContext::floats(const std::vector<float>& values) {
  return make("", {static_cast<std::int64_t>(values.size())}, DType::float32, values.data());
}

Tensor OpTestContext::bytes(const void* data, std::size_t size) {
  return make("", {static_cast<std::int64_t>(size)}, DType::uint8, data);
}

Tensor OpTestContext::results(const StepResults& values) {
  const Tensor tensor = bytes(&values, sizeof values);
  blocks_.back().name = "results";
  blocks_.back().is_results = true;
  return tensor;
}

std::vector<OpTestContext::Output> OpTestContext::outputs() const {
  std::vector<Output> all;
  for (const Block& block : blocks_) {
    std::vector<std::byte> host(block.memory.bytes());
    unguard(block);
    allocator_.download(host.data(), block.memory.data(), host.size(), allocator_.stream());
    allocator_.synchronize(allocator_.stream());
    guard(block);
    const auto begin = host.begin() + fence, end = begin + static_cast<std::ptrdiff_t>(block.tensor.bytes());
    const auto is_whole = [](std::byte byte) { return byte == fence_byte; };
    Output output{block.name, {}, {}, false, block.is_statistic};
    output.overrun = !std::all_of(host.begin(), begin, is_whole) || !std::all_of(end, host.end(), is_whole);
    if (block.name.empty()) {
      output.name = "an input";
      if (output.overrun) all.push_back(output);
      continue;
    }
    output.bits.assign(begin, end);
    if (block.is_results) {
      StepResults r;
      std::memcpy(&r, output.bits.data(), sizeof r);
      output.values = {r.loss_sum,          r.target_count,       r.correct,           r.gradient_norm,
                       r.gradient_scale,    r.detection.loss_sum, r.detection.weighed, r.detection.tokens,
                       r.detection.correct, r.detection.replaced, r.detection.found};
      // Flags are an output of their own: the tolerance is a share of an output's largest number, and beside
      // a norm of 1e20 a wrong flag would be within it.
      Output flags;
      flags.name = block.name + " flags";
      flags.values = {static_cast<double>(r.nonfinite), static_cast<double>(r.first_nonfinite)};
      all.push_back(std::move(flags));
    } else {
      output.values = numbers(output.bits, block.tensor.dtype());
    }
    all.push_back(std::move(output));
  }
  return all;
}

void expect_close(const std::vector<OpTestContext::Output>& got,
                  const std::vector<OpTestContext::Output>& expected, double tolerance,
                  double statistic_tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::vector<double>&values = got[i].values, &wanted = expected[i].values;
    EXPECT_FALSE(got[i].overrun) << got[i].name << " was written to beyond its ends";
    ASSERT_EQ(values.size(), wanted.size());
    double largest = 0;
    for (const double value : wanted)
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    double worst = 0;
    std::size_t where = 0;
    for (std::size_t j = 0; j < values.size(); ++j) {
      if (values[j] == wanted[j] || (std::isnan(values[j]) && std::isnan(wanted[j]))) continue;
      double error = std::abs(values[j] - wanted[j]) / (std::abs(wanted[j]) + largest / 4 + 1e-30);
      if (!std::isfinite(error)) error = std::numeric_limits<double>::infinity();
      if (error > worst) worst = error, where = j;
    }
    EXPECT_LE(worst, got[i].statistic ? statistic_tolerance : tolerance)
        << got[i].name << "[" << where << "] is " << values[where] << ", not " << wanted[where];
  }
}

std::vector<OperationCase> operation_cases() {
  std::vector<OperationCase> all;
  add_product_cases(all);
  add_attention_cases(all);
  add_norm_cases(all);
  add_elementwise_cases(all);
  add_embedding_cases(all);
  add_loss_cases(all);
  add_click_cases(all);
  add_optimizer_cases(all);
  add_rank_cases(all);
  add_float8_cases(all);
  return all;
}

namespace {

// Whose results are differences of larger numbers that nearly cancel, against which no narrow operand's error
// is small.
bool cancels(const std::string& name) {
  return name == "AttentionBackward_one_token" || name.starts_with("AttentionBackward_opposed") ||
         name == "AttentionBackward_slopes";  // whose last token sees itself only
}

// Whose 8-bit codes may be rounded the other way when what they are made of has lost its last bits.
bool flips(const std::string& name) {
  return name == "Float8LinearBackward_gelu" || name == "Float8LinearForward_of_gelu";
}

}  // namespace

std::vector<OperationCase> operation_cases_of(const Backend& backend, DType compute) {
  std::vector<OperationCase> cases = operation_cases();
  std::erase_if(cases, [&](const OperationCase& operation) {
    const auto* found =
        std::ranges::find(operation_names, operation.name.substr(0, operation.name.find('_')));
    if (compute == DType::bfloat16 && (cancels(operation.name) || flips(operation.name))) return true;
    if (found == std::end(operation_names)) return false;  // the run says that it is missing
    const auto id = static_cast<OperationId>(found - std::begin(operation_names));
    return backend.support(id, compute) == Backend::Support::missing;
  });
  return cases;
}

std::vector<OperationCase> tf32_cases() {
  std::vector<OperationCase> cases = operation_cases();
  std::erase_if(cases, [](const OperationCase& operation) {
    if (cancels(operation.name)) return true;
    return !operation.name.starts_with("MatrixProduct") && !operation.name.starts_with("BiasedProduct") &&
           !operation.name.starts_with("Attention");
  });
  for (OperationCase& operation : cases) operation.tolerance = 4e-3;
  return cases;
}

}  // namespace comera::test
