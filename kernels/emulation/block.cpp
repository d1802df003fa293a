#include "kernels/emulation/block.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/emulation/block_state.h"
#include "kernels/emulation/fiber.h"
#include "kernels/emulation/sanitizers.h"

// The scheduling of a block's threads, and their meetings.

namespace comera::emulation {

constinit thread_local Block* current_block = nullptr;
constinit thread_local Thread* current = nullptr;

namespace {

void add_ready(Block& block, Thread& thread) {
  thread.state = State::ready;
  block.ready[(block.first_ready + block.ready_count++) % most_threads] = thread.number;
}

Thread* take_ready(Block& block) {
  if (block.ready_count == 0) return nullptr;
  int at = block.first_ready;
  if (block.order == Order::random) {
    at = static_cast<int>((static_cast<std::uint64_t>(block.first_ready) +
                           block.random.next() % static_cast<std::uint64_t>(block.ready_count)) %
                          most_threads);
    const int chosen = block.ready[at];
    block.ready[at] = block.ready[block.first_ready];
    block.ready[block.first_ready] = chosen;
    at = block.first_ready;
  }
  Thread* thread = &block.threads[block.ready[at]];
  block.first_ready = (block.first_ready + 1) % most_threads;
  --block.ready_count;
  return thread;
}

// Calls wake(number) for begin … end - 1, or backwards.
template <class Wake>
void in_order(const Block& block, int begin, int end, Wake&& wake) {
  if (block.order == Order::reverse) {
    for (int i = end; i-- > begin;) wake(i);
  } else {
    for (int i = begin; i < end; ++i) wake(i);
  }
}

void go(Fiber& from, Fiber& to) {
  current_block->flow = &to;
  from.switch_to(to);
}

[[noreturn]] void fail(const char* what, const char* file, unsigned line) {
  Block& block = *current_block;
  const int written = std::snprintf(block.error, sizeof block.error, "kernel %s, block (%u, %u, %u)",
                                    block.launch.kernel, block.index.x, block.index.y, block.index.z);
  std::size_t at = static_cast<std::size_t>(written);
  if (current != nullptr)
    at += static_cast<std::size_t>(std::snprintf(block.error + at, sizeof block.error - at,
                                                 ", thread (%u, %u, %u)", current->index.x, current->index.y,
                                                 current->index.z));
  std::snprintf(block.error + at, sizeof block.error - at, ", %s:%u: %s", file, line, what);
  if (block.flow == block.main) throw EmulationError(block.error);
  tsan_release(&block.end_order);
  go(*block.flow, *block.main);
  std::abort();  // no fiber returns here
}

Fiber* take_fiber(Block& block, [[maybe_unused]] const Thread& thread) {
  // A race detector identifies threads by their fibers: each thread of a block has its own.
  if (COMERA_TSAN) return block.fibers[thread.number];
  if (block.idle_count > 0) return block.idle[--block.idle_count];
  return block.fibers[block.fiber_count++] = new Fiber(thread_entry);
}

// Switches from the flow `from` (a thread's, or the host's) to the next runnable thread. Returns when `from`
// is chosen again.
void leave(Fiber& from, const Thread* itself) {
  Block& block = *current_block;
  Thread* next = take_ready(block);
  if (next == nullptr) {
    if (block.live > 0) {
      const Thread* stuck = nullptr;
      for (int i = 0; i < block.count && stuck == nullptr; ++i)
        if (block.threads[i].state == State::at_barrier || block.threads[i].state == State::in_warp)
          stuck = &block.threads[i];
      fail(stuck->state == State::at_barrier ? "deadlock: not all threads reach this barrier"
                                             : "deadlock: not all lanes of the mask reach this operation",
           stuck->file, stuck->line);
    }
    current = nullptr;
    go(from, *block.main);
    return;
  }
  next->state = State::running;
  current = next;
  if (next == itself) return;
  if (next->fiber == nullptr) next->fiber = take_fiber(block, *next);
  go(from, *next->fiber);
}

void release_barrier(Block& block) {
  block.waiting = 0;
  block.barrier_result = block.predicates;
  block.predicates = 0;
  ++block.barriers;
  in_order(block, 0, block.count, [&](int i) {
    if (block.threads[i].state == State::at_barrier) add_ready(block, block.threads[i]);
  });
}

Thread* warp_of(Block& block, const Thread& thread) {
  return &block.threads[thread.number / warp_size * warp_size];
}

void check_same_meeting(const Thread& waiting, unsigned mask, WarpWork work) {
  if (waiting.mask != mask || waiting.work != work)
    fail("lanes of one warp meet in different operations", current->file, current->line);
}

// If all lanes of the mask have arrived, does their work and lets them continue.
bool hold_meeting(Block& block, Thread* warp, unsigned mask, WarpWork work) {
  const int number = warp->number / warp_size;
  const unsigned lanes = mask & block.living[number];
  if ((lanes & ~block.meeting[number]) != 0) return false;
  void* payloads[warp_size] = {};
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const Thread& thread = warp[std::countr_zero(left)];
    check_same_meeting(thread, mask, work);
    payloads[std::countr_zero(left)] = thread.payload;
  }
  block.meeting[number] &= ~lanes;
  {
    const TsanIgnored ignored;
    work(payloads, lanes);
  }
  in_order(block, 0, warp_size, [&](int lane) {
    if ((lanes >> lane & 1u) != 0) add_ready(block, warp[lane]);
  });
  return true;
}

void end_thread(Block& block, Thread& thread) {
  thread.state = State::ended;
  block.living[thread.number / warp_size] &= ~(1u << (thread.number % warp_size));
  --block.live;
  current = nullptr;
  if (block.live > 0 && block.waiting == block.live) release_barrier(block);
  const Thread* warp = warp_of(block, thread);
  const unsigned bit = 1u << (thread.number % warp_size);
  for (int lane = 0; lane < warp_size && warp->number + lane < block.count; ++lane) {
    const Thread& other = warp[lane];
    if (other.state == State::in_warp && (other.mask & bit) != 0)
      fail("a lane that the mask names has ended", other.file, other.line);
  }
}

}  // namespace

void thread_entry() {
  Fiber::begin();
  for (;;) {
    Block& block = *current_block;
    Thread& thread = *current;
    Fiber& fiber = *thread.fiber;
    tsan_acquire(&block.start_order);
    block.body(block.context);
    tsan_release(&block.end_order);
    end_thread(block, thread);
    thread.fiber = nullptr;
    if (!COMERA_TSAN) {
      // Only the first runnable thread is considered, so that the order is kept.
      if (Thread* next = take_ready(block)) {
        next->state = State::running;
        current = next;
        if (next->fiber == nullptr) {
          next->fiber = &fiber;
          continue;
        }
        block.idle[block.idle_count++] = &fiber;
        go(fiber, *next->fiber);
        continue;  // a new thread was given this fiber
      }
      block.idle[block.idle_count++] = &fiber;
    }
    leave(fiber, nullptr);
  }
}

void run_block(Block& block, const Index3& index) {
  block.index = index;
  block.live = block.count;
  block.waiting = block.predicates = 0;
  block.first_ready = block.ready_count = 0;
  block.idle_count = 0;
  for (int i = 0; i < block.fiber_count; ++i)
    if (!COMERA_TSAN) block.idle[block.idle_count++] = block.fibers[i];
  for (int i = 0; i < block.count; ++i) {
    Thread& thread = block.threads[i];
    thread.index = {static_cast<unsigned>(i) % block.launch.block.x,
                    static_cast<unsigned>(i) / block.launch.block.x % block.launch.block.y,
                    static_cast<unsigned>(i) / block.launch.block.x / block.launch.block.y};
    thread.number = i;
    thread.file = "(no line yet)";
    thread.line = 0;
    thread.fiber = nullptr;
  }
  for (int w = 0; w * warp_size < block.count; ++w) {
    const int lanes = std::min(warp_size, block.count - w * warp_size);
    block.living[w] = full_warp >> (warp_size - lanes);
    block.meeting[w] = 0;
  }
  in_order(block, 0, block.count, [&](int i) { add_ready(block, block.threads[i]); });
  std::memset(block.shared, 0xFF, block.launch.shared_bytes);
  tsan_release(&block.start_order);
  leave(*block.main, nullptr);
  tsan_acquire(&block.end_order);
  if (block.error[0] != '\0') {
    // The fibers' stacks are abandoned; they own nothing.
    for (int i = 0; i < block.fiber_count; ++i) block.fibers[i]->reset();
    current = nullptr;
    throw EmulationError(block.error);
  }
}

bool in_kernel() { return current_block != nullptr; }

const Index3& thread_index() { return current->index; }
const Index3& block_index() { return current_block->index; }
const Index3& block_size() { return current_block->launch.block; }
const Index3& grid_size() { return current_block->launch.grid; }
int lane_index() { return current->number % warp_size; }

std::byte* shared_memory(std::size_t bytes) {
  if (bytes > current_block->launch.shared_bytes)
    kernel_error("more shared memory is used than the launch gave");
  return current_block->shared;
}

int block_barrier(int predicate, const Where& where) {
  Block& block = *current_block;
  Thread& thread = *current;
  thread.file = where.file;
  thread.line = where.line;
  for (int i = 0; i < block.count; ++i) {
    const Thread& other = block.threads[i];
    if (other.state != State::at_barrier) continue;
    if (other.line != thread.line || std::strcmp(other.file, thread.file) != 0)
      fail("other threads of the block wait at another barrier", thread.file, thread.line);
    break;  // the others were compared with it
  }
  block.predicates += predicate != 0 ? 1 : 0;
  char* order = &block.barrier_order[block.barriers % 2];
  tsan_release(order);
  thread.state = State::at_barrier;
  if (++block.waiting == block.live) release_barrier(block);
  leave(*thread.fiber, &thread);
  tsan_acquire(order);
  return block.barrier_result;
}

void warp_meeting(unsigned mask, WarpWork work, void* payload, bool fence, const Where& where) {
  Block& block = *current_block;
  Thread& thread = *current;
  thread.file = where.file;
  thread.line = where.line;
  const int lane = thread.number % warp_size;
  if ((mask >> lane & 1u) == 0) fail("the mask does not name the calling lane", thread.file, thread.line);
  Thread* warp = warp_of(block, thread);
  const int number = thread.number / warp_size;
  const unsigned there = full_warp >> (warp_size - std::min(warp_size, block.count - warp->number));
  if ((mask & there & ~block.living[number]) != 0)
    fail("the mask names a lane that has ended", thread.file, thread.line);
  // One lane represents all that wait: each was compared when it arrived, and all are when the last one
  // arrives.
  if (const unsigned others = mask & block.meeting[number]; others != 0)
    check_same_meeting(warp[std::countr_zero(others)], mask, work);
  thread.mask = mask;
  thread.work = work;
  thread.payload = payload;
  char* order = &block.warp_order[thread.number / warp_size];
  if (fence) tsan_release(order);
  thread.state = State::in_warp;
  block.meeting[number] |= 1u << lane;
  hold_meeting(block, warp, mask, work);
  leave(*thread.fiber, &thread);
  if (fence) tsan_acquire(order);
}

unsigned active_lanes() { return current_block->living[current->number / warp_size]; }

void kernel_error(const char* what) { fail(what, current->file, current->line); }

}  // namespace comera::emulation
