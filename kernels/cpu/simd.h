#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/isa.h"
#include "kernels/shared/bfloat16.h"

// The only header that depends on the vector width: arithmetic uses GCC's vector extension, so that every
// kernel is written once for 8 and 16 lanes.
COMERA_CPU_BEGIN

#ifdef __AVX512F__
inline constexpr int lanes = 16;
#else
inline constexpr int lanes = 8;
#endif

typedef float vec __attribute__((vector_size(lanes * 4)));
typedef std::int32_t ivec __attribute__((vector_size(lanes * 4)));
typedef std::uint32_t uvec __attribute__((vector_size(lanes * 4)));
typedef double dvec __attribute__((vector_size(lanes * 8)));

inline vec splat(float x) {
#ifdef __AVX512F__
  return (vec)_mm512_set1_ps(x);
#else
  return (vec)_mm256_set1_ps(x);
#endif
}

inline vec load(const float* p) {
  vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, vec v) { std::memcpy(p, &v, sizeof v); }

// bfloat16 is a storage type: it is widened when loaded and rounded when stored, as in its constructor.
inline uvec rounded_to_bfloat16(vec v) {  // the 16 bits of each lane
  const uvec word = (uvec)v, upper = word >> 16;
  const uvec rounded = (word + 0x7fffu + (upper & 1u)) >> 16;
  return (word & 0x7fffffffu) > 0x7f800000u ? (upper | 0x40u) : rounded;
}
#ifdef __AVX512F__
inline vec widened(__m256i bits) { return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16); }
inline __m256i narrowed(vec v) {
#ifdef __AVX512BF16__
  return (__m256i)_mm512_cvtneps_pbh((__m512)v);
#else
  return _mm512_cvtepi32_epi16((__m512i)rounded_to_bfloat16(v));
#endif
}
inline vec load(const bfloat16* p) {
  return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store(bfloat16* p, vec v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrowed(v)); }
#else
inline vec widened(__m128i bits) { return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16); }
inline __m128i narrowed(vec v) {
  const __m256i bits = (__m256i)rounded_to_bfloat16(v);
  return _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
}
inline vec load(const bfloat16* p) { return widened(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline void store(bfloat16* p, vec v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrowed(v)); }
#endif
// The first `count` lanes, 0 <= count <= lanes; the others read as 0 and are not written.
#ifdef __AVX512F__
inline __mmask16 first_lanes(std::int64_t count) { return static_cast<__mmask16>((1u << count) - 1u); }
inline vec load_first(const float* p, std::int64_t count) {
  return (vec)_mm512_maskz_loadu_ps(first_lanes(count), p);
}
inline void store_first(float* p, vec v, std::int64_t count) {
  _mm512_mask_storeu_ps(p, first_lanes(count), (__m512)v);
}
inline vec load_first(const bfloat16* p, std::int64_t count) {
  return widened(_mm256_maskz_loadu_epi16(first_lanes(count), p));
}
inline void store_first(bfloat16* p, vec v, std::int64_t count) {
  _mm256_mask_storeu_epi16(p, first_lanes(count), narrowed(v));
}
#else
inline __m256i first_lanes(std::int64_t count) {
  const ivec lane = {0, 1, 2, 3, 4, 5, 6, 7};
  return (__m256i)(lane < static_cast<std::int32_t>(count));
}
inline vec load_first(const float* p, std::int64_t count) {
  return (vec)_mm256_maskload_ps(p, first_lanes(count));
}
inline void store_first(float* p, vec v, std::int64_t count) {
  _mm256_maskstore_ps(p, first_lanes(count), (__m256)v);
}
inline vec load_first(const bfloat16* p, std::int64_t count) {
  bfloat16 some[lanes] = {};
  std::memcpy(some, p, static_cast<std::size_t>(count) * sizeof *p);
  return load(some);
}
inline void store_first(bfloat16* p, vec v, std::int64_t count) {
  bfloat16 some[lanes];
  store(some, v);
  std::memcpy(p, some, static_cast<std::size_t>(count) * sizeof *p);
}
#endif

// The first `count` lanes of v, 0 in the others.
inline vec keep_first(vec v, std::int64_t count) {
#ifdef __AVX512F__
  return (vec)_mm512_maskz_mov_ps(first_lanes(count), (__m512)v);
#else
  return (vec)_mm256_and_ps((__m256)v, _mm256_castsi256_ps(first_lanes(count)));
#endif
}

// The first `count` lanes of v, those of `other` in the others.
inline vec first_or(vec v, std::int64_t count, vec other) {
#ifdef __AVX512F__
  return (vec)_mm512_mask_mov_ps((__m512)other, first_lanes(count), (__m512)v);
#else
  return (vec)_mm256_blendv_ps((__m256)other, (__m256)v, _mm256_castsi256_ps(first_lanes(count)));
#endif
}

// Loads and stores for whole vectors and for the remainder of a row, with the same names.
struct WholeVector {
  template <class T>
  static vec load(const T* p) {
    return cpu::load(p);
  }
  template <class T>
  static void store(T* p, vec v) {
    cpu::store(p, v);
  }
  static vec keep(vec v) { return v; }
  static vec keep_or(vec v, vec) { return v; }
};
struct PartOfVector {
  std::int64_t count;
  template <class T>
  vec load(const T* p) const {
    return load_first(p, count);
  }
  template <class T>
  void store(T* p, vec v) const {
    store_first(p, v, count);
  }
  vec keep(vec v) const { return keep_first(v, count); }  // 0 beyond the row, for sums
  vec keep_or(vec v, vec other) const { return first_or(v, count, other); }
};

// One instruction each, returning `b` if either is a NaN; for the conditional expression the compiler might
// emit a comparison and a blend.
inline vec max(vec a, vec b) {
#ifdef __AVX512F__
  return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#else
  return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#endif
}
inline vec min(vec a, vec b) {
#ifdef __AVX512F__
  return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#else
  return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#endif
}
inline vec abs(vec a) { return (vec)((ivec)a & 0x7fffffff); }
inline vec sqrt(vec a) {
#ifdef __AVX512F__
  return (vec)_mm512_sqrt_ps((__m512)a);
#else
  return (vec)_mm256_sqrt_ps((__m256)a);
#endif
}

#ifdef __AVX512F__
// a b + c in one instruction wherever it is inlined: otherwise the compiler may round such an expression in
// two ways.
inline vec multiply_add(vec a, vec b, vec c) { return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#endif

inline dvec widen(vec a) { return __builtin_convertvector(a, dvec); }

// Lanes are combined in one fixed order: halves, then halves of those.
template <class Combine>
inline float reduce(vec v, const Combine& combine) {
#ifdef __AVX512F__
  const __m256 half = combine(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
#else
  const __m256 half = (__m256)v;
#endif
  __m128 quarter = combine(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  quarter = combine(quarter, _mm_movehl_ps(quarter, quarter));
  quarter = combine(quarter, _mm_movehdup_ps(quarter));
  return quarter[0];
}
inline float sum(vec v) {
  return reduce(v, [](auto a, auto b) { return a + b; });
}
inline float largest(vec v) {
  return reduce(v, [](auto a, auto b) { return a > b ? a : b; });
}
inline double sum(dvec v) {
  double total = v[0];
  for (int i = 1; i < lanes; ++i) total += v[i];
  return total;
}

// v if the byte is not below the threshold, otherwise 0.
inline vec kept(vec v, const std::uint8_t* bytes, std::uint32_t threshold) {
#ifdef __AVX512F__
  const ivec wide = (ivec)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
#else
  const ivec wide = (ivec)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
#endif
  return wide >= static_cast<std::int32_t>(threshold) ? v : splat(0);
}

COMERA_CPU_END
