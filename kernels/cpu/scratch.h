#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/shared/bfloat16.h"

COMERA_CPU_BEGIN

// Allocates parts of a kernel's scratch, each on its own cache line. Without memory it only counts, so that
// one function both computes the size and takes the memory.
class Scratch {
 public:
  explicit Scratch(std::byte* memory = nullptr) : memory_(memory) {}

  float* floats(std::int64_t count) {
    std::byte* piece = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (static_cast<std::size_t>(count) * sizeof(float) + 63) / 64 * 64;
    return reinterpret_cast<float*>(piece);
  }
  bfloat16* narrow(std::int64_t count) { return reinterpret_cast<bfloat16*>(floats((count + 1) / 2)); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

COMERA_CPU_END
