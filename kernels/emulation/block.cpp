#include "kernels/emulation/block.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "kernels/emulation/fiber.h"
#include "kernels/emulation/sanitizers.h"

// This file is compiled without ThreadSanitizer: fibers take turns, so that the scheduler's own state needs
// no ordering, and what orders the threads of a kernel is said explicitly. For the same reason nothing here
// calls the standard library while a kernel runs: its inline functions may be linked as instrumented
// elsewhere.

namespace comera::emulation {

namespace {

enum class State : std::uint8_t { ready, running, at_barrier, in_warp, ended };

struct Thread {
  Index3 index;
  int number = 0;
  State state = State::ready;
  Fiber* fiber = nullptr;  // null until it starts
  // Of the meeting or barrier that it waits in.
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

// A block and everything that its threads need, for one host thread; used again for every block it runs.
struct Block {
  Launch launch;
  Index3 index;
  int count = 0;
  int live = 0;
  Thread threads[most_threads];

  // Threads that can go on, in the order in which they became so.
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
  Fiber* flow = nullptr;             // the one that runs
  Fiber* fibers[most_threads] = {};  // made so far
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

thread_local Block* current_block = nullptr;
thread_local Thread* current = nullptr;

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
  std::abort();  // nobody comes back
}

void thread_entry();

Fiber* take_fiber(Block& block, [[maybe_unused]] const Thread& thread) {
  // A race detector knows threads by their fibers: each of a block has one of its own.
  if (COMERA_TSAN) return block.fibers[thread.number];
  if (block.idle_count > 0) return block.idle[--block.idle_count];
  return block.fibers[block.fiber_count++] = new Fiber(thread_entry);
}

// Leaves the flow `from` (a thread's, or the host's) for the next thread that can run. Returns when `from` is
// chosen again.
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

// If all lanes of the mask are there, does their work and lets them go on.
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

// What a fiber does: one thread after another, as long as those that come next have not started elsewhere.
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
      // Only the first of those that can run is looked at, so that the order stays as it is.
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
    // What the fibers stood in is given up; they own nothing.
    for (int i = 0; i < block.fiber_count; ++i) block.fibers[i]->reset();
    current = nullptr;
    throw EmulationError(block.error);
  }
}

// Fibers live as long as their host thread.
Block& block_of_this_thread() {
  static thread_local std::unique_ptr<Block> block;
  if (!block) {
    block = std::make_unique<Block>();
    block->main = block->flow = new Fiber;
  }
  return *block;
}

// As many bytes as were asked for, so that AddressSanitizer sees what is beyond.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes), whole_((bytes + 128) / 128 * 128) {
    data_ = static_cast<std::byte*>(std::aligned_alloc(128, whole_));
    if (data_ == nullptr) throw std::bad_alloc();
#if COMERA_ASAN
    __asan_poison_memory_region(data_ + bytes_, whole_ - bytes_);
#endif
  }
  ~SharedMemory() {
#if COMERA_ASAN
    __asan_unpoison_memory_region(data_ + bytes_, whole_ - bytes_);
#endif
    std::free(data_);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  std::size_t bytes_, whole_;
};

struct Grid {
  const Launch& launch;
  void (*body)(const void*);
  const void* context;
  std::uint64_t workers;

  std::uint64_t blocks() const { return std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z; }
};

// Every so-many'th block, so that each worker gets its share however short the kernel is.
void run_blocks(const Grid& grid, std::uint64_t worker) {
  Block& block = block_of_this_thread();
  const SharedMemory shared(grid.launch.shared_bytes);
  block.launch = grid.launch;
  block.count = static_cast<int>(grid.launch.block.x * grid.launch.block.y * grid.launch.block.z);
  block.body = grid.body;
  block.context = grid.context;
  block.shared = shared.data();
  block.error[0] = '\0';
  block.order = options().order;
  block.random.state = (options().seed + worker + 1) * 0x9E3779B97F4A7C15u;
  if (COMERA_TSAN)  // made here: making a fiber orders its maker before it
    while (block.fiber_count < block.count) block.fibers[block.fiber_count++] = new Fiber(thread_entry);
  struct Current {
    explicit Current(Block& block) { current_block = &block; }
    ~Current() { current_block = nullptr; }
  } const running(block);
  const std::uint64_t count = grid.blocks();
  for (std::uint64_t turn = worker; turn < count; turn += grid.workers) {
    std::uint64_t number = turn;
    if (block.order == Order::reverse) number = count - 1 - turn;
    const std::uint64_t x = grid.launch.grid.x, y = grid.launch.grid.y;
    run_block(block, {static_cast<unsigned>(number % x), static_cast<unsigned>(number / x % y),
                      static_cast<unsigned>(number / x / y)});
  }
}

void check_launch(const Launch& launch) {
  const auto refuse = [&](const std::string& what) {
    throw EmulationError(std::string("kernel ") + launch.kernel + " cannot be launched: " + what);
  };
  const Index3 &grid = launch.grid, &block = launch.block;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > most_threads || block.z > 64)
    refuse("a block of " + std::to_string(threads) + " threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    refuse("a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
           std::to_string(grid.z) + " blocks");
  if (launch.shared_bytes > most_shared_bytes)
    refuse(std::to_string(launch.shared_bytes) + " bytes of shared memory");
  if (in_kernel()) refuse("it is launched by a kernel");
}

}  // namespace

void run_grid(const Launch& launch, void (*body)(const void*), const void* context) {
  check_launch(launch);
  Grid grid{launch, body, context, static_cast<std::uint64_t>(std::max(options().workers, 1))};
  grid.workers = std::min(grid.workers, grid.blocks());
  // Host threads are made anew, so that only the launch orders them.
  std::vector<std::exception_ptr> errors(grid.workers);
  const auto work = [&](std::uint64_t worker) {
    try {
      run_blocks(grid, worker);
    } catch (...) {
      errors[worker] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::uint64_t worker = 1; worker < grid.workers; ++worker) others.emplace_back(work, worker);
    work(0);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
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
  // One stands for all that wait: each was compared when it came, and all are when the last one comes.
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

Options& options() {
  static Options read = [] {
    Options values;
    const auto text = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value != nullptr ? value : "");
    };
    const std::string order = text("COMERA_EMULATION_ORDER");
    if (order == "reverse") values.order = Order::reverse;
    if (order == "random") values.order = Order::random;
    if (const std::string seed = text("COMERA_EMULATION_SEED"); !seed.empty())
      values.seed = std::strtoull(seed.c_str(), nullptr, 10);
    if (const std::string workers = text("COMERA_EMULATION_WORKERS"); !workers.empty())
      values.workers = std::atoi(workers.c_str());
    return values;
  }();
  return read;
}

}  // namespace comera::emulation
