#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/emulation/block.h"
#include "kernels/emulation/fiber.h"

// The files that include this one are compiled without ThreadSanitizer: fibers take turns, so the scheduler's
// state needs no ordering, and the ordering between a kernel's threads is declared explicitly. For the same
// reason they do not call the standard library while a kernel runs: its inline functions may be linked in an
// instrumented version.

namespace comera::emulation {

enum class State : std::uint8_t { ready, running, at_barrier, in_warp, ended };

struct Thread {
  Index3 index;
  int number = 0;
  State state = State::ready;
  Fiber* fiber = nullptr;  // null until it starts
  // The meeting or barrier that it waits for.
  unsigned mask = 0;
  WarpWork work = nullptr;
  void* payload = nullptr;
  const char* file = "";
  unsigned line = 0;
};

struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  }
};

// A block and everything that its threads need, for one host thread; reused for every block that it runs.
struct Block {
  Launch launch;
  Index3 index;
  int count = 0;
  int live = 0;
  Thread threads[most_threads];

  // Runnable threads, in the order in which they became runnable.
  int ready[most_threads] = {};
  int first_ready = 0, ready_count = 0;

  // A bit for each lane of a warp.
  unsigned living[most_threads / warp_size] = {};
  unsigned meeting[most_threads / warp_size] = {};  // in_warp

  int waiting = 0;  // at the barrier
  int predicates = 0, barrier_result = 0;

  Order order = Order::forward;
  Random random{1};

  Fiber* main = nullptr;
  Fiber* flow = nullptr;             // the running one
  Fiber* fibers[most_threads] = {};  // created so far
  int fiber_count = 0;
  Fiber* idle[most_threads] = {};
  int idle_count = 0;

  void (*body)(const void*) = nullptr;
  const void* context = nullptr;

  std::byte* shared = nullptr;

  char error[1024] = {};

  // For ThreadSanitizer. Barriers use two objects in turn: arriving early at the next one orders nothing
  // before this one.
  char start_order = 0, end_order = 0, barrier_order[2] = {}, warp_order[most_threads / warp_size] = {};
  unsigned barriers = 0;

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    for (int i = 0; i < fiber_count; ++i) delete fibers[i];
    delete main;
  }
};

// The block that this host thread runs; null outside of kernels.
extern constinit thread_local Block* current_block;
extern constinit thread_local Thread* current;

// Runs every thread of a block to its end; throws EmulationError.
void run_block(Block& block, const Index3& index);
// The entry of a fiber: runs one thread after another, as long as the next ones have not started elsewhere.
void thread_entry();

}  // namespace comera::emulation
