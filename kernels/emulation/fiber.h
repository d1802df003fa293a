#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace comera::emulation {

// A flow of control with its own stack that runs until it switches to another. Sanitizers are notified of
// every switch. Fibers stay on the host thread that created them.
class Fiber {
 public:
  using Entry = void (*)();  // never returns

  // The host thread's own flow.
  Fiber();
  explicit Fiber(Entry entry);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Switches from this fiber, which must be running, to the other. Returns when something switches back.
  void switch_to(Fiber& other);
  // Called at the very start of an entry.
  static void begin();
  // Discards its state: the next switch to it starts at its entry.
  void reset();

 private:
  Entry entry_ = nullptr;
  std::byte* memory_ = nullptr;  // guard page and stack; null for the host thread
  std::size_t mapped_ = 0;
  void* stack_ = nullptr;  // lowest address
  std::size_t stack_bytes_ = 0;
#if defined(__x86_64__)
  void* top_ = nullptr;  // stack pointer while suspended
#else
  ucontext_t context_;
#endif
  void* fake_stack_ = nullptr;  // AddressSanitizer's
  void* tsan_ = nullptr;        // ThreadSanitizer's fiber
};

}  // namespace comera::emulation
