#pragma once

#include <cstdint>

// Conversions of 16-bit floats without branches, so that loops over them are
// vectorised. Header for the kernel variants only: functions are static, since
// each variant compiles them for another instruction set.

namespace tnt::comm {
namespace {

inline std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}

inline float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

// bfloat16 is the upper half of a float32.
inline float widen_bfloat16(std::uint16_t half) {
  return float_of(static_cast<std::uint32_t>(half) << 16);
}

inline std::uint16_t narrow_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  // Adding just less than half a unit, plus the last kept bit, rounds ties to
  // even; a carry into the exponent is right, up to infinity.
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  const std::uint32_t quiet_nan = bits | 0x00400000U;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<std::uint16_t>((is_nan ? quiet_nan : rounded) >> 16);
}

// float16: 1 sign, 5 exponent (bias 15), 10 fraction bits.
inline float widen_float16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  // Normal numbers: shift into place and correct the bias by 127 - 15.
  const std::uint32_t normal = (magnitude << 13) + ((127U - 15U) << 23);
  // Subnormal numbers are magnitude * 2^-24, which a float32 holds exactly.
  const std::uint32_t subnormal =
      bits_of(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 5.9604644775390625e-8F);
  // Infinity and NaN: the largest exponent stays the largest.
  const std::uint32_t special = (magnitude << 13) | 0x7f800000U;
  const std::uint32_t finite = magnitude < 0x0400U ? subnormal : normal;
  return float_of(sign | (magnitude >= 0x7c00U ? special : finite));
}

inline std::uint16_t narrow_float16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Normal results: rebias, round to 10 fraction bits, ties to even. A carry
  // may overflow into the exponent, up to infinity, as it should.
  const std::uint32_t normal =
      (magnitude - ((127U - 15U) << 23) + 0x0fffU + ((magnitude >> 13) & 1U)) >> 13;
  // Results below 2^-14: adding 0.5 aligns the value so that the last fraction bit of the sum is
  // worth 2^-24, the unit of float16 subnormals; the adder does the rounding.
  const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
  const std::uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x03ffU);
  const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
  // 65520 and more round to infinity.
  const std::uint32_t bounded = magnitude >= 0x477ff000U ? 0x7c00U : finite;
  return static_cast<std::uint16_t>(sign | (magnitude > 0x7f800000U ? nan : bounded));
}

}  // namespace
}  // namespace tnt::comm
