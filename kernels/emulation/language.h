#pragma once

// The parts of the CUDA language that .cu files use, for a host compiler: keywords, thread indices, barriers,
// warp operations, atomics and arithmetic. Threads are fibers (block.h). Shared memory is allocated per
// launch: kernels use no static shared memory.
//
// Not modelled: time, caches, clusters, and waiting for another block.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/emulation/block.h"

// NOLINTBEGIN(bugprone-reserved-identifier,bugprone-macro-parentheses): CUDA's names
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__ &  // after a type: fibers share one copy, as threads do
#define __restrict__

#define threadIdx (::comera::emulation::thread_index())
#define blockIdx (::comera::emulation::block_index())
#define blockDim (::comera::emulation::block_size())
#define gridDim (::comera::emulation::grid_size())

namespace comera::emulation {

// A block's barrier and warp operations take the line of their call.

inline void __syncthreads(const Where& where = Where::current()) { block_barrier(0, where); }
inline int __syncthreads_or(int predicate, const Where& where = Where::current()) {
  return block_barrier(predicate, where) > 0 ? 1 : 0;
}

inline void __syncwarp(unsigned mask = full_warp, const Where& where = Where::current()) {
  warp_meeting(
      mask, [](void* const*, unsigned) {}, nullptr, true, where);
}

template <class T>
struct ShufflePayload {
  T value, result;
  int source;
};

template <class T>
T shuffle(unsigned mask, T value, int source, const Where& where) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "the hardware shuffles 4 or 8 bytes");
  ShufflePayload<T> payload{value, value, source};
  warp_meeting(
      mask,
      [](void* const* payloads, unsigned lanes) {
        for (int lane = 0; lane < warp_size; ++lane) {
          if ((lanes >> lane & 1u) == 0) continue;
          auto* own = static_cast<ShufflePayload<T>*>(payloads[lane]);
          if ((lanes >> own->source & 1u) == 0)
            kernel_error("a shuffle reads from a lane that does not take part");
          own->result = static_cast<ShufflePayload<T>*>(payloads[own->source])->value;
        }
      },
      &payload, false, where);
  return payload.result;
}

// Lanes outside of a part of `width` lanes return their own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warp_size,
              const Where& where = Where::current()) {
  const int first = lane_index() / width * width;
  return shuffle(mask, value, first + source % width, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warp_size,
                  const Where& where = Where::current()) {
  const int lane = lane_index(), source = lane ^ bits;
  return shuffle(mask, value, source / width == lane / width ? source : lane, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int by, int width = warp_size,
                   const Where& where = Where::current()) {
  const int lane = lane_index(), source = lane + by;
  return shuffle(mask, value, source / width == lane / width ? source : lane, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int by, int width = warp_size,
                 const Where& where = Where::current()) {
  const int lane = lane_index(), source = lane - by;
  return shuffle(mask, value, source >= lane / width * width ? source : lane, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, const Where& where = Where::current()) {
  unsigned payload = predicate != 0 ? 1u : 0u;
  warp_meeting(
      mask,
      [](void* const* payloads, unsigned lanes) {
        unsigned votes = 0;
        for (int lane = 0; lane < warp_size; ++lane)
          if ((lanes >> lane & 1u) != 0 && *static_cast<unsigned*>(payloads[lane]) != 0) votes |= 1u << lane;
        for (int lane = 0; lane < warp_size; ++lane)
          if ((lanes >> lane & 1u) != 0) *static_cast<unsigned*>(payloads[lane]) = votes;
      },
      &payload, false, where);
  return payload;
}
inline int __any_sync(unsigned mask, int predicate, const Where& where = Where::current()) {
  return __ballot_sync(mask, predicate, where) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, const Where& where = Where::current()) {
  return __ballot_sync(mask, predicate != 0 ? 0 : 1, where) == 0 ? 1 : 0;
}

inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

// Atomics return the previous value.
template <class T, class Change>
T change_atomically(T* place, Change&& change) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static_assert(sizeof(T) == sizeof(Bits));
  auto* bits = reinterpret_cast<Bits*>(place);
  Bits old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(bits, &old, std::bit_cast<Bits>(change(std::bit_cast<T>(old))), true,
                                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  return std::bit_cast<T>(old);
}
template <class T>
T atomicAdd(T* place, std::type_identity_t<T> value) {
  return change_atomically(place, [&](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(T* place, std::type_identity_t<T> value) {
  return change_atomically(place, [&](T old) { return std::max(old, value); });
}
template <class T>
T atomicMin(T* place, std::type_identity_t<T> value) {
  return change_atomically(place, [&](T old) { return std::min(old, value); });
}

template <class T>
T __ldg(const T* place) {
  return *place;
}
using std::isfinite;
using std::max;
using std::min;
inline float rsqrtf(float x) { return 1.F / std::sqrt(x); }
inline double rsqrt(double x) { return 1. / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }

}  // namespace comera::emulation
// NOLINTEND(bugprone-reserved-identifier,bugprone-macro-parentheses)
