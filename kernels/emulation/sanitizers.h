#pragma once

// The sanitizers of this build, and the notifications that they need.

#ifndef __has_feature
#define __has_feature(feature) 0  // clang has it, g++ 12 does not
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define COMERA_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define COMERA_ASAN 0
#endif

#if !defined(COMERA_TSAN)  // defined for files that are not instrumented themselves
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define COMERA_TSAN 1
#else
#define COMERA_TSAN 0
#endif
#endif
#if COMERA_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace comera::emulation {

// Everything before a release of an object is visible after an acquire of it.
inline void tsan_release([[maybe_unused]] void* object) {
#if COMERA_TSAN
  __tsan_release(object);
#endif
}
inline void tsan_acquire([[maybe_unused]] void* object) {
#if COMERA_TSAN
  __tsan_acquire(object);
#endif
}

#if COMERA_TSAN
extern "C" void AnnotateIgnoreReadsBegin(const char*, int);
extern "C" void AnnotateIgnoreReadsEnd(const char*, int);
extern "C" void AnnotateIgnoreWritesBegin(const char*, int);
extern "C" void AnnotateIgnoreWritesEnd(const char*, int);
#endif

// The emulation's own accesses, which model registers and wires.
class TsanIgnored {
 public:
  TsanIgnored() {
#if COMERA_TSAN
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  }
  ~TsanIgnored() {
#if COMERA_TSAN
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
  TsanIgnored(const TsanIgnored&) = delete;
  TsanIgnored& operator=(const TsanIgnored&) = delete;
};

}  // namespace comera::emulation
