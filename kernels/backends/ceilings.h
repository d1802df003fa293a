#pragma once

#include <cstdint>

namespace comera {

// The peak performance of this machine, measured now on all threads: the reference for timings.
struct Ceilings {
  double product_flops = 0;  // per second: on a CPU multiply-adds in registers, in float32
  double copy_bytes = 0;     // per second, read and written, of a copy much larger than the caches
};
Ceilings measure_ceilings();

// The time of the system's matrix library for C (m x n) = op(A) op(B), with its own threading, in seconds;
// the best of `repeats`.
double library_product_seconds(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a,
                               bool transpose_b, int repeats);

}  // namespace comera
