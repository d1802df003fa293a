#include "kernels/ops/products/float8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

namespace {

typedef std::uint8_t bytes __attribute__((vector_size(lanes)));

constexpr std::int64_t side = 64;        // of a tile, which is quantised once for both copies
constexpr std::int64_t block_side = 16;  // of what is transposed in registers

Float8Scale& scale_in(const Tensor& tensor) { return *static_cast<Float8Scale*>(tensor.raw()); }

ivec choose(ivec condition, ivec yes, ivec no) { return (condition & yes) | (~condition & no); }
ivec bits_of(float x) { return (ivec)splat(x); }

// The codes of float8_code() (kernels/shared/float8_code.h). Rounding to nearest even adds just less than
// half of the part cut off; numbers too small for the format's exponents are rounded by an addition that
// leaves no bits below their last one.
template <class F>
bytes codes_of(vec unscaled, float scale) {
  constexpr bool e4m3 = F::largest < 1000;
  constexpr int mantissa = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15, cut = 23 - mantissa;
  const vec x = unscaled * scale;
  const ivec sign = (ivec)((uvec)(ivec)x >> 24) & 0x80;
  const vec magnitude = abs(x);
  const ivec not_a_number = (ivec)abs(unscaled) >= 0x7f800000;  // infinity becomes one too
  const vec finite = min(magnitude, splat(F::largest));
  const ivec word = (ivec)finite;
  const ivec normal =
      ((word + ((1 << (cut - 1)) - 1) + ((word >> cut) & 1)) >> cut) - ((127 - bias) << mantissa);
  const float least = std::ldexp(1.F, 1 - bias),
              last_bit_is_least = std::ldexp(1.F, 1 - bias - mantissa + 23);
  const ivec small = (ivec)(finite + splat(last_bit_is_least)) - bits_of(last_bit_is_least);
  const ivec code = choose(word < bits_of(least), small, normal) | sign;
  return __builtin_convertvector(choose(not_a_number, code - code + 0x7f, code), bytes);
}

// Largest magnitude as the bits of a float; as bits, a NaN is larger than everything.
template <class T, Activation activation>
float largest_magnitude(const Float8Quantize& op) {
  const std::int64_t pieces = row_pieces(op.rows);
  std::array<std::int32_t, 16> largest{};
  const T* x = op.x.data<T>();
  parallel_pieces(
      pieces, op.rows * op.columns < flat_piece ? 1 : thread_limit(), [&](std::int64_t piece, int) {
        ivec most = {};
        for (std::int64_t row = piece * op.rows / pieces; row < (piece + 1) * op.rows / pieces; ++row)
          for_columns(0, op.columns, [&](std::int64_t c, auto at) {
            const ivec magnitude = (ivec)abs(activated<activation>(at.load(x + row * op.leading() + c)));
            most = choose(magnitude > most, magnitude, most);
          });
        for (int lane = 0; lane < lanes; ++lane) largest[piece] = std::max(largest[piece], most[lane]);
      });
  const std::int32_t most = *std::ranges::max_element(largest);
  float value;
  std::memcpy(&value, &most, sizeof value);
  return value;
}

// 16 x 16 bytes with row strides `from_apart` and `to_apart`: interleaving the two halves of the rows four
// times transposes.
void transpose_block(const std::uint8_t* from, std::int64_t from_apart, std::uint8_t* to,
                     std::int64_t to_apart) {
  __m128i rows[block_side], mixed[block_side];
  for (int i = 0; i < block_side; ++i)
    rows[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * from_apart));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < block_side / 2; ++i) {
      mixed[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + 8]);
      mixed[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + 8]);
    }
    for (int i = 0; i < block_side / 2; ++i) {
      rows[2 * i] = _mm_unpacklo_epi8(mixed[i], mixed[i + 8]);
      rows[2 * i + 1] = _mm_unpackhi_epi8(mixed[i], mixed[i + 8]);
    }
  }
  for (int i = 0; i < block_side; ++i)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * to_apart), rows[i]);
}

// The codes of x's part at (row, column), zeros beyond x: every activation maps 0 to 0.
template <class F, class T, Activation activation>
void quantize_tile(const Float8Quantize& op, float scale, std::int64_t row, std::int64_t column,
                   std::uint8_t* tile) {
  const std::int64_t rows = std::min(side, op.rows - row), columns = std::min(side, op.columns - column);
  std::memset(tile, 0, side * side);
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* x = op.x.data<T>() + (row + i) * op.leading() + column;
    for_columns(0, columns, [&](std::int64_t c, auto at) {
      const bytes codes = codes_of<F>(activated<activation>(at.load(x + c)), scale);
      std::memcpy(tile + i * side + c, &codes, sizeof codes);
    });
  }
}

void store_tile(const Float8Quantize& op, std::int64_t row, std::int64_t column, const std::uint8_t* tile) {
  const std::int64_t padded_rows = float8_padded(op.rows), padded_columns = float8_padded(op.columns);
  const std::int64_t rows = std::min(side, padded_rows - row),
                     columns = std::min(side, padded_columns - column);
  if (op.y) {
    auto* y = static_cast<std::uint8_t*>(op.y.raw()) + row * padded_columns + column;
    for (std::int64_t i = 0; i < rows; ++i) std::memcpy(y + i * padded_columns, tile + i * side, columns);
  }
  if (!op.transposed) return;
  auto* y = static_cast<std::uint8_t*>(op.transposed.raw()) + column * padded_rows + row;
  for (std::int64_t i = 0; i < rows; i += block_side)
    for (std::int64_t j = 0; j < columns; j += block_side)
      transpose_block(tile + i * side + j, side, y + j * padded_rows + i, padded_rows);
}

template <class F, class T, Activation activation>
void quantize_to(const Float8Quantize& op) {
  using Scaling = Float8Quantize::Scaling;
  Float8Scale& scale = scale_in(op.scale);
  if (op.scaling != Scaling::kept) {
    const float amax = largest_magnitude<T, activation>(op);
    if (op.scaling == Scaling::current) {
      scale.amax = amax;
      set_float8_scale(amax, F::largest, op.margin, scale);
    } else if (std::isnan(amax) || amax > scale.amax) {
      scale.amax = amax;
    }
  }
  const std::int64_t down = (op.rows + side - 1) / side, across = (op.columns + side - 1) / side;
  parallel_pieces(down * across, down * across < 4 ? 1 : thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t row = piece / across * side, column = piece % across * side;
    alignas(64) std::uint8_t tile[side * side + lanes];
    quantize_tile<F, T, activation>(op, scale.scale, row, column, tile);
    store_tile(op, row, column, tile);
  });
}

template <class T, Activation activation>
void quantize(const Float8Quantize& op) {
  if (op.type() == DType::float8_e4m3)
    quantize_to<float8_e4m3, T, activation>(op);
  else
    quantize_to<float8_e5m2, T, activation>(op);
}

template <class F, class T>
std::array<T, 256> numbers_of_codes(float inverse) {
  std::array<T, 256> numbers{};
  for (int code = 0; code < 256; ++code) {
    F number;
    number.bits = static_cast<std::uint8_t>(code);
    numbers[code] = T(static_cast<float>(number) * inverse);
  }
  return numbers;
}

}  // namespace

template <class T>
void float8_quantize(const Float8Quantize& op, const KernelContext&) {
  for_activation(op.activation, [&]<Activation a>() { quantize<T, a>(op); });
}

template <class T>
void float8_expand(const Float8Expand& op, const KernelContext&) {
  const float inverse = scale_in(op.scale).inverse;
  const std::array<T, 256> numbers = op.x.dtype() == DType::float8_e4m3
                                         ? numbers_of_codes<float8_e4m3, T>(inverse)
                                         : numbers_of_codes<float8_e5m2, T>(inverse);
  const auto* x = static_cast<const std::uint8_t*>(op.x.raw());
  T* y = op.y.data<T>();
  for_flat_pieces(op.x.elements(), [&](std::int64_t begin, std::int64_t count) {
    for (std::int64_t i = begin; i < begin + count; ++i) y[i] = numbers[x[i]];
  });
}

COMERA_FOR_EACH_TYPE(Float8Quantize, float8_quantize)
COMERA_FOR_EACH_TYPE(Float8Expand, float8_expand)

COMERA_CPU_END
