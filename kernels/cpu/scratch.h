#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/shared/bfloat16.h"

COMERA_CPU_BEGIN

// Hands out pieces of a kernel's scratch, each on its own cache line. With no memory it only counts, so that
// one function serves both to say how much is needed and to take it.
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
