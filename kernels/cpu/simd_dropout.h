#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/shared/dropout.h"

COMERA_CPU_BEGIN

// High and low halves of 32 x 32 bit products, lane by lane.
inline void multiply_wide(std::uint32_t factor, uvec x, uvec& high, uvec& low) {
#ifdef __AVX512F__
  const __m512i f = _mm512_set1_epi64(factor), v = (__m512i)x;
  const __m512i even = _mm512_mul_epu32(f, v);
  const __m512i odd = _mm512_mul_epu32(f, _mm512_srli_epi64(v, 32));
  high = (uvec)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  low = (uvec)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
#else
  const __m256i f = _mm256_set1_epi64x(factor), v = (__m256i)x;
  const __m256i even = _mm256_mul_epu32(f, v);
  const __m256i odd = _mm256_mul_epu32(f, _mm256_srli_epi64(v, 32));
  high = (uvec)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  low = (uvec)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
#endif
}

inline uvec lane_numbers() {
#ifdef __AVX512F__
  return uvec{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
  return uvec{0, 1, 2, 3, 4, 5, 6, 7};
#endif
}

inline constexpr int bytes_per_call = 16 * lanes;

// The words of `lanes` counters; several such at a time, since one round waits for the round before.
struct PhiloxWords {
  uvec word[4];
};

template <int Together>
inline void philox_words(const DropoutKey& key, std::uint32_t site, std::uint32_t block,
                         PhiloxWords (&words)[Together]) {
  for (int i = 0; i < Together; ++i) {
    words[i] = {{lane_numbers() + (block + static_cast<std::uint32_t>(i * lanes)), uvec{} + site,
                 uvec{} + key.step, uvec{} + key.pack}};
  }
  std::uint32_t key0 = static_cast<std::uint32_t>(key.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
    for (int i = 0; i < Together; ++i) {
      uvec(&word)[4] = words[i].word;
      uvec high0, low0, high1, low1;
      multiply_wide(0xD2511F53u, word[0], high0, low0);
      multiply_wide(0xCD9E8D57u, word[2], high1, low1);
      word[0] = high1 ^ word[1] ^ key0;
      word[1] = low1;
      word[2] = high0 ^ word[3] ^ key1;
      word[3] = low0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

// The bytes of such words in the order of the elements.
inline void store_bytes(const PhiloxWords& words, std::uint8_t* bytes) {
  const uvec word0 = words.word[0], word1 = words.word[1], word2 = words.word[2], word3 = words.word[3];
  // Four words of one counter belong together: a 4 x 4 transposition within each 128 bits.
#ifdef __AVX512F__
  const __m512i w0 = (__m512i)word0, w1 = (__m512i)word1, w2 = (__m512i)word2, w3 = (__m512i)word3;
  const __m512i a = _mm512_unpacklo_epi32(w0, w1), b = _mm512_unpackhi_epi32(w0, w1);
  const __m512i c = _mm512_unpacklo_epi32(w2, w3), d = _mm512_unpackhi_epi32(w2, w3);
  const __m512i quads[4] = {_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c),
                            _mm512_unpacklo_epi64(b, d), _mm512_unpackhi_epi64(b, d)};
#else
  const __m256i w0 = (__m256i)word0, w1 = (__m256i)word1, w2 = (__m256i)word2, w3 = (__m256i)word3;
  const __m256i a = _mm256_unpacklo_epi32(w0, w1), b = _mm256_unpackhi_epi32(w0, w1);
  const __m256i c = _mm256_unpacklo_epi32(w2, w3), d = _mm256_unpackhi_epi32(w2, w3);
  const __m256i quads[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                            _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};
#endif
  auto* to = reinterpret_cast<__m128i*>(bytes);
  for (int quad = 0; quad < 4; ++quad) {
#ifdef __AVX512F__
    _mm_storeu_si128(to + quad, _mm512_castsi512_si128(quads[quad]));
    _mm_storeu_si128(to + quad + 4, _mm512_extracti32x4_epi32(quads[quad], 1));
    _mm_storeu_si128(to + quad + 8, _mm512_extracti32x4_epi32(quads[quad], 2));
    _mm_storeu_si128(to + quad + 12, _mm512_extracti32x4_epi32(quads[quad], 3));
#else
    _mm_storeu_si128(to + quad, _mm256_castsi256_si128(quads[quad]));
    _mm_storeu_si128(to + quad + 4, _mm256_extracti128_si256(quads[quad], 1));
#endif
  }
}

// The decision bytes of elements [16 block, 16 block + Together bytes_per_call): what dropout_bytes() gives
// for Together * lanes blocks.
template <int Together>
inline void dropout_bytes_of(const DropoutKey& key, std::uint32_t site, std::uint32_t block,
                             std::uint8_t* bytes) {
  PhiloxWords words[Together];
  philox_words(key, site, block, words);
  for (int i = 0; i < Together; ++i) store_bytes(words[i], bytes + i * bytes_per_call);
}

// Decision bytes of any run of elements. `bytes` must have room for dropout_room(count); returns where in it
// the bytes of element `first` begin.
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
