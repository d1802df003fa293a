#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/shared/dropout.h"

COMERA_CPU_BEGIN

// Philox for lanes / 2 counters. Each word is in the lower half of 64 bits, so that both halves of a product
// are in place for the next round; the upper halves are undefined.
typedef std::uint64_t wide_vec __attribute__((vector_size(lanes * 4)));
struct PhiloxWords {
  wide_vec word[4];
};
inline constexpr int philox_counters = lanes / 2;

inline wide_vec multiply_lower(wide_vec a, wide_vec b) {
#ifdef __AVX512F__
  return (wide_vec)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#else
  return (wide_vec)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#endif
}

// Counters in the order that store_bytes() expects.
inline wide_vec philox_lanes() {
#ifdef __AVX512F__
  return wide_vec{0, 4, 1, 5, 2, 6, 3, 7};
#else
  return wide_vec{0, 2, 1, 3};
#endif
}

// Several vectors of counters at a time, since each round depends on the previous one.
template <int Vectors>
inline void philox_words(const DropoutKey& key, std::uint32_t site, std::uint32_t block,
                         PhiloxWords (&words)[Vectors]) {
  for (int i = 0; i < Vectors; ++i) {
    words[i] = {{philox_lanes() + (block + static_cast<std::uint32_t>(i * philox_counters)),
                 wide_vec{} + site, wide_vec{} + key.step, wide_vec{} + key.micro_batch}};
  }
  std::uint32_t key0 = static_cast<std::uint32_t>(key.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(key.seed >> 32);
  const wide_vec factor0 = wide_vec{} + 0xD2511F53u, factor1 = wide_vec{} + 0xCD9E8D57u;
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
    for (int i = 0; i < Vectors; ++i) {
      wide_vec(&word)[4] = words[i].word;
      const wide_vec product0 = multiply_lower(factor0, word[0]), product1 = multiply_lower(factor1, word[2]);
      word[0] = (product1 >> 32) ^ word[1] ^ (wide_vec{} + key0);
      word[1] = product1;
      word[2] = (product0 >> 32) ^ word[3] ^ (wide_vec{} + key1);
      word[3] = product0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

// The bytes of such words in the order of the elements: a counter gives 16.
inline void store_bytes(const PhiloxWords& words, std::uint8_t* bytes) {
  const auto pairs = [](wide_vec lower, wide_vec upper) {
#ifdef __AVX512F__
    return _mm512_mask_blend_epi32(0xAAAA, (__m512i)lower, (__m512i)(upper << 32));
#else
    return _mm256_blend_epi32((__m256i)lower, (__m256i)(upper << 32), 0xAA);
#endif
  };
  const auto first = pairs(words.word[0], words.word[1]), second = pairs(words.word[2], words.word[3]);
#ifdef __AVX512F__
  _mm512_storeu_si512(bytes, _mm512_unpacklo_epi64(first, second));
  _mm512_storeu_si512(bytes + 64, _mm512_unpackhi_epi64(first, second));
#else
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes), _mm256_unpacklo_epi64(first, second));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes + 32), _mm256_unpackhi_epi64(first, second));
#endif
}

inline constexpr int bytes_per_call = 16 * lanes;

// The mask bytes of elements [16 block, 16 block + Calls bytes_per_call): the result of dropout_bytes() for
// Calls * lanes blocks.
template <int Calls>
inline void dropout_bytes_of(const DropoutKey& key, std::uint32_t site, std::uint32_t block,
                             std::uint8_t* bytes) {
  PhiloxWords words[2 * Calls];
  philox_words(key, site, block, words);
  for (int i = 0; i < 2 * Calls; ++i) store_bytes(words[i], bytes + i * 16 * philox_counters);
}

// Mask bytes of any range of elements. `bytes` must have room for dropout_room(count); returns the offset of
// element `first` in it.
inline std::int64_t dropout_room(std::int64_t count) { return count + 16 + bytes_per_call; }

inline const std::uint8_t* dropout_run(const DropoutKey& key, std::uint32_t site, std::uint64_t first,
                                       std::int64_t count, std::uint8_t* bytes) {
  const std::int64_t skip = static_cast<std::int64_t>(first % 16);
  const std::uint32_t block = static_cast<std::uint32_t>(first / 16);
  std::int64_t done = 0;
  for (; done + bytes_per_call < skip + count; done += 2 * bytes_per_call) {
    dropout_bytes_of<2>(key, site, block + static_cast<std::uint32_t>(done / 16), bytes + done);
  }
  if (done < skip + count) {
    dropout_bytes_of<1>(key, site, block + static_cast<std::uint32_t>(done / 16), bytes + done);
  }
  return bytes + skip;
}

COMERA_CPU_END
