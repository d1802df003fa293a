#pragma once

#include <cstdint>

namespace comera {

// What this machine can do at best, measured now, on all threads: what timings are held against.
struct Ceilings {
  double product_flops = 0;  // per second: on a CPU multiply-adds on registers, in float32
  double copy_bytes = 0;     // per second, read and written, of a copy much larger than the caches
};
Ceilings measure_ceilings();

// Seconds that the system's matrix library needs for C (m x n) = op(A) op(B), with its own threading; the
// best of `repeats`.
double library_product_seconds(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a,
                               bool transpose_b, int repeats);

}  // namespace comera
