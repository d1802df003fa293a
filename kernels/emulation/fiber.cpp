#include "kernels/emulation/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <new>

#include "kernels/emulation/sanitizers.h"

namespace comera::emulation {

namespace {

constexpr std::size_t page = 4096;
// Instrumented code needs larger stacks.
constexpr std::size_t usual_stack = COMERA_ASAN || COMERA_TSAN ? 64 * page : 8 * page;

#if defined(__x86_64__)
// Saves the callee-saved registers of the System V convention, and continues on the other stack.
__attribute__((naked, noinline, no_sanitize("address", "thread", "undefined"))) void swap_stacks(
    void** /*from*/, void* /*to*/) {
  asm volatile(
      "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
      "movq %rsp, (%rdi)\n"
      "movq %rsi, %rsp\n"
      "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
      "ret\n");
}
#endif

}  // namespace

Fiber::Fiber() {
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack_, &stack_bytes_);
  pthread_attr_destroy(&attributes);
#if COMERA_TSAN
  tsan_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(Entry entry) : entry_(entry), mapped_(usual_stack + page), stack_bytes_(usual_stack) {
  void* memory =
      mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  mprotect(memory_, page, PROT_NONE);  // an overflow is a fault instead of reaching another stack
  stack_ = memory_ + page;
#if COMERA_TSAN
  tsan_ = __tsan_create_fiber(0);
#endif
  reset();
}

Fiber::~Fiber() {
  if (memory_ == nullptr) return;
#if COMERA_TSAN
  __tsan_destroy_fiber(tsan_);
#endif
  munmap(memory_, mapped_);
}

void Fiber::reset() {
  fake_stack_ = nullptr;
#if COMERA_ASAN
  __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
#if defined(__x86_64__)
  // The tops of a thousand stacks of equal size would share a few cache sets.
  static thread_local unsigned colour = 0;
  auto** top = reinterpret_cast<void**>(static_cast<std::byte*>(stack_) + stack_bytes_ -
                                        std::size_t{64} * (1 + colour++ % 16));
  *--top = nullptr;  // the return address of the entry; also aligns the stack as after a call
  *--top = reinterpret_cast<void*>(entry_);
  for (int saved_register = 0; saved_register < 6; ++saved_register) *--top = nullptr;
  top_ = top;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = stack_bytes_;
  context_.uc_link = nullptr;
  makecontext(&context_, entry_, 0);
#endif
}

void Fiber::switch_to(Fiber& other) {
#if COMERA_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_, other.stack_, other.stack_bytes_);
#endif
#if COMERA_TSAN
  __tsan_switch_to_fiber(other.tsan_, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__x86_64__)
  swap_stacks(&top_, other.top_);
#else
  swapcontext(&context_, &other.context_);
#endif
#if COMERA_ASAN
  __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::begin() {
#if COMERA_ASAN
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

}  // namespace comera::emulation
