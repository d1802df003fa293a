#pragma once

#include "kernels/core/tensors/memory.h"

namespace comera {

// One block of memory with two ends, so that a step allocates nothing and its addresses repeat. Tensors for
// backward grow from the bottom and are released in reverse order (mark, release); scratch grows from the top
// and ends with its ArenaScope.
//
// AddressSanitizer guards released memory and the gaps between tensors.
//
// A measuring arena has no memory: it hands out addresses that must not be read and records how much would
// have been needed, so that a dry run of a step gives the exact sizes to allocate.
class Arena {
 public:
  struct Plan {
    std::size_t saved = 0;    // largest bottom, bytes
    std::size_t scratch = 0;  // largest top, bytes
    std::size_t total = 0;    // largest sum of both at any time, bytes
  };

  // immediate: the device completes work before it gets more, so that its memory can be guarded like the
  // CPU's; false if its work is recorded.
  Arena(Allocator& allocator, const Plan& plan, bool immediate = false);
  static Arena measuring(Device device);

  Tensor saved(Shape shape, DType dtype);
  Tensor scratch(Shape shape, DType dtype);

  std::size_t mark() const { return bottom_; }
  void release(std::size_t mark);

  bool is_measuring() const { return measuring_; }
  const Plan& peak() const { return peak_; }

 private:
  friend class ArenaScope;
  explicit Arena(Device device) : device_(device), measuring_(true) {}
  void record(std::size_t wanted, const char* what);
  void end_scratch(std::size_t top);

  Buffer memory_;  // counted as activations
  Device device_;
  bool measuring_ = false;
  bool guarded_ = false;
  std::byte* base_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t bottom_ = 0;
  std::size_t top_ = 0;
  Plan peak_;
};

// Releases scratch taken since the scope began.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), top_(arena.top_) {}
  ~ArenaScope() { arena_.end_scratch(top_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

  Tensor tensor(Shape shape, DType dtype) { return arena_.scratch(shape, dtype); }

 private:
  Arena& arena_;
  std::size_t top_;
};

}  // namespace comera
