#include "tests/cpu/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/shared/philox.h"

namespace comera::test {

namespace {
constexpr std::size_t fence = 128;  // bytes before and behind each tensor
constexpr std::byte fence_byte{0xA5};

std::size_t start_of(const std::vector<std::byte>& memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data()) + fence;
  return fence + (64 - address % 64) % 64;
}
}  // namespace

Tensor World::make(const std::string& name, Shape shape, DType dtype) {
  Block& block = blocks_.emplace_back();
  block.name = name;
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  block.memory.assign(bytes + 2 * fence + 64, fence_byte);
  block.tensor = Tensor(block.memory.data() + start_of(block.memory), shape, dtype);
  return block.tensor;
}

void World::draw(const Tensor& tensor, double range, DType exact) {
  const std::uint32_t site = drawn_++;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const Philox4 bits = philox({{static_cast<std::uint32_t>(i), site, 0, 0}}, 42);
    auto value = static_cast<float>((bits.word[0] / 4294967296.0 * 2 - 1) * range);
    if (exact == DType::bfloat16) value = static_cast<float>(bfloat16(value));
    switch (tensor.dtype()) {
      case DType::bfloat16:
        tensor.data<bfloat16>()[i] = bfloat16(value);
        break;
      case DType::float32:
        tensor.data<float>()[i] = value;
        break;
      default:
        tensor.data<double>()[i] = value;
    }
  }
}

Tensor World::input(Shape shape, double range) {
  const Tensor tensor = make("", shape, compute_);
  draw(tensor, range, exact_);
  return tensor;
}

Tensor World::output(const std::string& name, Shape shape, double range) {
  const Tensor tensor = make(name, shape, compute_);
  draw(tensor, range, exact_);
  return tensor;
}

Tensor World::master(Shape shape, double range) {
  const Tensor tensor = make("", shape, master_of(compute_));
  draw(tensor, range, DType::float32);
  return tensor;
}

Tensor World::master_output(const std::string& name, Shape shape, double range) {
  const Tensor tensor = make(name, shape, master_of(compute_));
  draw(tensor, range, DType::float32);
  return tensor;
}

Tensor World::output_double(const std::string& name, Shape shape) {
  const Tensor tensor = make(name, shape, DType::float64);
  draw(tensor, 1, DType::float32);
  return tensor;
}

Tensor World::integers(std::vector<std::int32_t> values) {
  const Tensor tensor = make("", {static_cast<std::int64_t>(values.size())}, DType::int32);
  std::memcpy(tensor.raw(), values.data(), tensor.bytes());
  return tensor;
}

Tensor World::bytes(const void* data, std::size_t size) {
  const Tensor tensor = make("", {static_cast<std::int64_t>(size)}, DType::uint8);
  std::memcpy(tensor.raw(), data, size);
  return tensor;
}

Tensor World::results(const StepResults& values) {
  const Tensor tensor = bytes(&values, sizeof values);
  blocks_.back().name = "results";
  blocks_.back().is_results = true;
  return tensor;
}

std::vector<World::Output> World::outputs() const {
  std::vector<Output> all;
  for (const Block& block : blocks_) {
    Output output{block.name, {}, {}, false};
    const std::size_t begin = start_of(block.memory), end = begin + block.tensor.bytes();
    for (std::size_t i = 0; i < block.memory.size(); ++i) {
      if ((i < begin || i >= end) && block.memory[i] != fence_byte) output.overrun = true;
    }
    if (block.name.empty()) {
      output.name = "an input";
      if (output.overrun) all.push_back(output);
      continue;
    }
    output.bits.assign(block.memory.begin() + static_cast<std::ptrdiff_t>(begin),
                       block.memory.begin() + static_cast<std::ptrdiff_t>(end));
    if (block.is_results) {
      const auto& r = *static_cast<const StepResults*>(block.tensor.raw());
      output.values = {r.loss_sum,
                       r.target_count,
                       r.correct,
                       r.gradient_norm,
                       r.gradient_scale,
                       static_cast<double>(r.nonfinite),
                       static_cast<double>(r.first_nonfinite)};
    } else {
      const Tensor& tensor = block.tensor;
      for (std::int64_t i = 0; i < tensor.elements(); ++i)
        output.values.push_back(tensor.dtype() == DType::bfloat16
                                    ? static_cast<double>(static_cast<float>(tensor.data<bfloat16>()[i]))
                                : tensor.dtype() == DType::float32 ? tensor.data<float>()[i]
                                                                   : tensor.data<double>()[i]);
    }
    all.push_back(std::move(output));
  }
  return all;
}

void expect_close(const std::vector<World::Output>& got, const std::vector<World::Output>& expected,
                  double tolerance) {
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
    EXPECT_LE(worst, tolerance) << got[i].name << "[" << where << "] is " << values[where] << ", not "
                                << wanted[where];
  }
}

}  // namespace comera::test
