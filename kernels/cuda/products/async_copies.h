#pragma once

#include "kernels/cuda/cuda.h"
#if defined(COMERA_EMULATED)
#include "kernels/emulation/async_copies.h"
#endif

namespace comera::COMERA_CUDA {

#if !defined(COMERA_EMULATED)
// Asynchronous 16-byte copies from global to shared memory by one thread (PTX ISA, "cp.async"), which bypass
// registers. Both addresses are multiples of 16 bytes; invalid elements are not read and become zeros.
class AsyncCopies {
 public:
  __device__ __forceinline__ void add(void* to, const void* from, bool real) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
                   "l"(__cvta_generic_to_global(from)), "r"(real ? 16 : 0)
                 : "memory");
  }
  // Waits for this thread's copies; those of other threads are complete after the block's next barrier.
  __device__ __forceinline__ void wait() { asm volatile("cp.async.wait_all;" : : : "memory"); }
};
#endif

}  // namespace comera::COMERA_CUDA
