#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "kernels/emulation/block_state.h"
#include "kernels/emulation/fiber.h"
#include "kernels/emulation/options.h"
#include "kernels/emulation/sanitizers.h"

// A launch: its blocks, shared among host threads.

namespace comera::emulation {

namespace {

// Fibers live as long as their host thread.
Block& block_of_this_thread() {
  static thread_local std::unique_ptr<Block> block;
  if (!block) {
    block = std::make_unique<Block>();
    block->main = block->flow = new Fiber;
  }
  return *block;
}

// Exactly the requested bytes, so that AddressSanitizer detects accesses beyond them.
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

// Runs every `workers`-th block, so that each worker gets its share however short the kernel is.
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
  if (COMERA_TSAN)  // created here, because creating a fiber orders its creator before it
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
  // Host threads are created for each launch, so that only the launch orders them.
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

}  // namespace comera::emulation
