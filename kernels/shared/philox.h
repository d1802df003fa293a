#pragma once

#include <cstdint>

#include "kernels/shared/host_device.h"

namespace comera {

struct Philox4 {
  std::uint32_t word[4];
};

// The high and low half of a product, in one GPU instruction.
COMERA_HOST_DEVICE std::uint64_t wide_product(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  std::uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return std::uint64_t{a} * b;
#endif
}

// Philox 4x32-10, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011): the same counter and key give the same 128 bits on every device, in any order.
COMERA_HOST_DEVICE Philox4 philox(Philox4 counter, std::uint64_t key) {
  std::uint32_t key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = wide_product(0xD2511F53u, counter.word[0]);
    const std::uint64_t product1 = wide_product(0xCD9E8D57u, counter.word[2]);
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace comera
