#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tnt/comm/kernel/vectors.hpp"

// Conversions of 16-bit floats, a vector at a time. Header for the kernel variants only: everything
// is in an unnamed namespace, since each variant compiles it for another instruction set.

namespace tnt::comm {
namespace {

constexpr std::size_t kWords = kVectorBytes / 4;
using Half = std::uint16_t;
using Halves = Vector<Half, kWords>;
using Floats = Vector<float, kWords>;
using Words = Vector<std::uint32_t, kWords>;
// Compared and packed faster than unsigned ones.
using SignedWords = Vector<std::int32_t, kWords>;

inline Words bits_of(Floats values) {
  return __builtin_bit_cast(Words, values);
}

inline Floats floats_of(Words bits) {
  return __builtin_bit_cast(Floats, bits);
}

// spread(): each in the upper half of its word. pack(): words that hold 16-bit integers.
#if defined(__AVX2__)
inline Words spread(Halves halves) {
  const __m128i packed = __builtin_bit_cast(__m128i, halves);
  return __builtin_bit_cast(Words, _mm256_slli_epi32(_mm256_cvtepu16_epi32(packed), 16));
}

inline Halves pack(SignedWords words) {
  const __m256i all = __builtin_bit_cast(__m256i, words);
  const __m128i low = _mm256_castsi256_si128(all);
  return __builtin_bit_cast(Halves, _mm_packs_epi32(low, _mm256_extracti128_si256(all, 1)));
}
#elif defined(__SSE2__)
inline Words spread(Halves halves) {
  const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&halves));
  return __builtin_bit_cast(Words, _mm_unpacklo_epi16(_mm_setzero_si128(), low));
}

inline Halves pack(SignedWords words) {
  const __m128i all = __builtin_bit_cast(__m128i, words);
  Halves halves;
  _mm_storel_epi64(reinterpret_cast<__m128i*>(&halves), _mm_packs_epi32(all, all));
  return halves;
}

// With a constant, g++ would not take these instructions for `a < b ? a : b`.
inline Floats smaller(Floats a, Floats b) {
  return _mm_min_ps(a, b);
}

inline Floats larger(Floats a, Floats b) {
  return _mm_max_ps(a, b);
}
#else
inline Words spread(Halves halves) {
  return __builtin_convertvector(halves, Words) << 16;
}

inline Halves pack(SignedWords words) {
  return __builtin_convertvector(words, Halves);
}

inline Floats smaller(Floats a, Floats b) {
  return a < b ? a : b;
}

inline Floats larger(Floats a, Floats b) {
  return a > b ? a : b;
}
#endif

// bfloat16 is the upper half of a float32.
inline Floats widen_bfloat16(Halves halves) {
  return floats_of(spread(halves));
}

inline Halves narrow_bfloat16(Floats values) {
  const Words bits = bits_of(values);
  const Words is_nan = __builtin_bit_cast(Words, values != values);
  // Adding just less than half a unit, plus the last kept bit, rounds ties to even; a carry into
  // the exponent is right, up to infinity. A NaN becomes quiet instead.
  const Words rounding = ~is_nan & (((bits >> 16) & 1U) + 0x7fffU);
  const Words rounded = (bits + rounding) | (is_nan & 0x00400000U);
  return pack(__builtin_bit_cast(SignedWords, rounded) >> 16);
}

// float16: 1 sign, 5 exponent (bias 15), 10 fraction bits. A NaN becomes quiet both ways, as IEEE
// 754 says of conversions.
#if defined(__F16C__)
inline Floats widen_float16(Halves halves) {
  return _mm256_cvtph_ps(__builtin_bit_cast(__m128i, halves));
}

inline Halves narrow_float16(Floats values) {
  return __builtin_bit_cast(Halves, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}
#else
inline Floats widen_float16(Halves halves) {
  const Words bits = spread(halves);
  const Words sign = bits & 0x80000000U;
  // Exponent and fraction in place, but biased by 15 instead of 127.
  const SignedWords magnitude = __builtin_bit_cast(SignedWords, (bits & 0x7fff0000U) >> 3);
  constexpr std::int32_t kUnit = 1 << 23;  // of the exponent
  constexpr std::int32_t kBias = (127 - 15) * kUnit;
  const SignedWords is_normal = magnitude > kUnit - 1;
  const SignedWords is_special = magnitude > 31 * kUnit - 1;
  // Subnormal numbers have the exponent of the smallest normal ones without their leading 1, which
  // is added with it and then subtracted.
  const SignedWords leading = ~is_normal & (kBias | kUnit);
  // Infinity and NaN: the largest exponent stays the largest. The subtraction makes a NaN quiet.
  const SignedWords bias = (leading | kBias) + (is_special & kBias);
  const Floats absolute =
      __builtin_bit_cast(Floats, magnitude + bias) - __builtin_bit_cast(Floats, leading);
  return floats_of(sign | bits_of(absolute));
}

inline Halves narrow_float16(Floats values) {
  const SignedWords bits = __builtin_bit_cast(SignedWords, values);
  const SignedWords sign = (bits >> 16) & ~0x7fff;
  const SignedWords magnitude = bits & 0x7fffffff;
  const Floats absolute = __builtin_bit_cast(Floats, magnitude);
  // 65520 and more round to infinity.
  const Floats bounded = smaller(absolute, Floats{} + 65520.0F);
  // The power of two below, at least the smallest normal number.
  const Floats power = floats_of(bits_of(bounded) & 0x7f800000U);
  const Floats unit = larger(power, Floats{} + 0x1p-14F);
  // Adding 2^13 of it leaves 10 fraction bits; the adder does the rounding.
  const SignedWords exponent = __builtin_bit_cast(SignedWords, unit);
  const SignedWords aligner = exponent + (13 << 23);
  const Floats aligned = bounded + __builtin_bit_cast(Floats, aligner);
  const SignedWords fraction = __builtin_bit_cast(SignedWords, aligned) - aligner;
  // The fraction of a normal number has the leading 1, which counts one exponent.
  const SignedWords number = fraction + (exponent >> 13) - ((127 - 15 + 1) << 10);
  const SignedWords quiet_nan = 0x0200 | ((magnitude >> 13) & 0x03ff);
  return pack(sign | number | ((values != values) & quiet_nan));
}
#endif

}  // namespace
}  // namespace tnt::comm
