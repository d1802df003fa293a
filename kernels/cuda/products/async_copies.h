#pragma once

#include "kernels/cuda/cuda.h"
#if defined(COMERA_EMULATED)
#include "kernels/emulation/async_copies.h"
#endif

namespace comera::COMERA_CUDA {

#if !defined(COMERA_EMULATED)
// Copies of 16 bytes from global to shared memory that a thread starts and does not wait for (PTX ISA,
// "cp.async"): neither do they go through registers. Both places are multiples of 16 bytes; what is not real
// is not read, and zeros come instead.
class AsyncCopies {
 public:
  __device__ __forceinline__ void add(void* to, const void* from, bool real) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
                   "l"(__cvta_generic_to_global(from)), "r"(real ? 16 : 0)
                 : "memory");
  }
  // Until this thread's copies are done; those of others are after the block's next barrier.
  __device__ __forceinline__ void wait() { asm volatile("cp.async.wait_all;" : : : "memory"); }
};
#endif

}  // namespace comera::COMERA_CUDA
