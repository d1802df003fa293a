#pragma once

#include <cstdint>
#include <string>

#include "kernels/core/profile.h"

// A model of the time that operations take on an H200.
namespace comera::test {

// What an operation does in a step, over all its calls.
struct OperationCount {
  std::string name;
  std::int64_t calls = 0;
  double launches = 0;
  Work work;

  OperationCount& operator+=(const OperationCount& other) {
    calls += other.calls, launches += other.launches, work += other.work;
    return *this;
  }
};

// The constants that are fitted to measurements: bench/results/2026-11-27-h200.md.
namespace time_model {
// Milliseconds of a launch and of a gigabyte, and operations a second of the matrix library in bfloat16: by
// least squares of the relative errors of six steps, of tensor trains and of their dense baseline with 5,120,
// 16,384 and 32,768 tokens. Copies of large tensors take 0.24 ms for a gigabyte, and products of the best
// size have 790e12.
inline constexpr double of_a_launch = 4.9e-3, of_a_gigabyte = 0.30, library_flops = 650e12;
// The share that fused kernels reach of their bound, the rate of tensor cores, instructions or special
// functions: from the profile of 32,768 tokens, less the launches. Forward and backward agree.
inline constexpr double attention_reaches = 0.26, inner_reaches = 0.54;

// How fast the machine is: as fitted, or if every operation reached its bound and launches took no time.
struct Rates {
  double launch = of_a_launch, gigabyte = of_a_gigabyte, library = library_flops;
  double attention = attention_reaches, inner = inner_reaches;
};
inline constexpr Rates at_the_bounds{
    .launch = 0, .gigabyte = 0.24, .library = 790e12, .attention = 1, .inner = 1};
}  // namespace time_model

// Milliseconds: those of its launches, and the longest of those of its bytes, its products and its
// instructions.
double milliseconds(const OperationCount& count, const time_model::Rates& rates = {});

}  // namespace comera::test
