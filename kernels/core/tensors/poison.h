#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace comera {

// Marks host memory as forbidden until it is allowed again, for AddressSanitizer; otherwise does nothing.
inline void poison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(memory, bytes);
#endif
}
inline void unpoison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(memory, bytes);
#endif
}
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool poisons = true;
#else
inline constexpr bool poisons = false;
#endif

}  // namespace comera
