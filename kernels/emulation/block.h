#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "kernels/emulation/options.h"

namespace comera::emulation {

// A kernel caused undefined behaviour, such as a barrier that not all threads reach, or a launch is
// impossible. The message names kernel, block, thread and line.
struct EmulationError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Index3 {
  unsigned x = 1, y = 1, z = 1;
};

inline constexpr int warp_size = 32;
inline constexpr int most_threads = 1024;                 // per block
inline constexpr std::size_t most_shared_bytes = 232448;  // 227 KiB per block (compute capability 9.0)
inline constexpr unsigned full_warp = 0xffffffffu;

struct Launch {
  const char* kernel = "";
  Index3 grid, block;
  std::size_t shared_bytes = 0;
};

// Runs body(context) as every thread of every block. Threads are fibers: they switch at barriers, warp
// operations and their end, in the order set by options(). Shared memory is filled with 0xFF (a NaN) before
// each block. EmulationError as above.
void run_grid(const Launch& launch, void (*body)(const void*), const void* context);

// Whether a kernel is running on this host thread.
bool in_kernel();

// ---- State of the running thread.

const Index3& thread_index();
const Index3& block_index();
const Index3& block_size();
const Index3& grid_size();
int lane_index();
std::byte* shared_memory(std::size_t bytes);  // EmulationError if the launch gave less

// A source location: as a default argument, that of the call.
struct Where {
  const char* file = "";
  unsigned line = 0;
  static Where current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

// __syncthreads(): waits for all threads of the block that have not ended; all must reach the same line.
// Returns how many passed a predicate other than 0.
int block_barrier(int predicate, const Where& where);

// The lanes of a warp in `mask` meet; when the last one arrives, work(payloads, mask) is called with each
// lane's payload (null for other lanes) and may change it. All must pass the same work. Orders memory among
// the lanes only if `fence`, as __syncwarp() does and shuffles do not.
using WarpWork = void (*)(void* const payloads[warp_size], unsigned mask);
void warp_meeting(unsigned mask, WarpWork work, void* payload, bool fence, const Where& where);

// Lanes of this warp that have not ended.
unsigned active_lanes();

// Ends the kernel with EmulationError, at the line of the thread's last barrier or warp operation.
[[noreturn]] void kernel_error(const char* what);

}  // namespace comera::emulation
