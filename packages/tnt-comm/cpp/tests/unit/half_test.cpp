#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel_variants.hpp"

namespace tnt::comm {
namespace {

using tests::Variants;

// IEEE 754 binary16, spelled out.
double value_of_float16(std::uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int fraction = half & 0x3ff;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

bool is_nan(std::uint16_t float16) {
  return (float16 & 0x7fff) > 0x7c00;
}

std::uint32_t widened_bits(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  if (is_nan(half)) return sign | 0x7fc00000U | ((half & 0x3ffU) << 13);
  return std::bit_cast<std::uint32_t>(static_cast<float>(value_of_float16(half)));
}

std::uint16_t narrowed_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(sign | 0x7e00U | ((bits >> 13) & 0x3ffU));
  }
  const double absolute = std::fabs(value);
  if (absolute >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00U);
  // In units of the last fraction bit; nearbyint() rounds ties to even.
  const int exponent = absolute == 0 ? -14 : std::max(std::ilogb(absolute), -14);
  const double units = std::nearbyint(std::ldexp(absolute, 10 - exponent));
  // Those of a normal number count the leading 1, which is one exponent.
  const auto magnitude =
      static_cast<std::uint32_t>((exponent + 14) << 10) + static_cast<std::uint32_t>(units);
  return static_cast<std::uint16_t>(sign | magnitude);
}

std::vector<std::uint16_t> all_halves() {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  return halves;
}

// The upper half of each pattern is any float of 16 bits; the lower ones are around ties of both
// formats.
std::vector<float> floats_around_halves() {
  std::vector<float> floats;
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x0fffU, 0x1000U, 0x1001U, 0x2fffU, 0x3000U,
                                      0x3001U, 0x7fffU, 0x8000U, 0x8001U, 0xf000U, 0xffffU}) {
      floats.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  return floats;
}

std::vector<float> widen(const KernelTable& kernels, DType format,
                         const std::vector<std::uint16_t>& halves) {
  std::vector<float> floats(halves.size());
  kernels.widen[index_of(format)](floats.data(), halves.data(), halves.size());
  return floats;
}

std::vector<std::uint16_t> narrow(const KernelTable& kernels, DType format,
                                  const std::vector<float>& floats) {
  std::vector<std::uint16_t> halves(floats.size());
  kernels.narrow[index_of(format)](halves.data(), floats.data(), floats.size());
  return halves;
}

class Halves : public Variants {};

TEST_P(Halves, EveryFloat16WidensToItsValueAndNaNsBecomeQuiet) {
  const auto halves = all_halves();
  const auto wide = widen(kernels(), DType::float16, halves);
  for (const auto half : halves) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(wide[half]), widened_bits(half)) << half;
  }
}

TEST_P(Halves, EveryFloat16ComesBackAndNaNsBecomeQuiet) {
  const auto halves = all_halves();
  const auto back = narrow(kernels(), DType::float16, widen(kernels(), DType::float16, halves));
  for (const auto half : halves) EXPECT_EQ(back[half], is_nan(half) ? half | 0x0200 : half);
}

TEST_P(Halves, FloatsRoundToTheNearestFloat16AndTiesToEven) {
  const auto floats = floats_around_halves();
  const auto halves = narrow(kernels(), DType::float16, floats);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(halves[i], narrowed_bits(floats[i])) << std::hexfloat << floats[i];
  }
}

TEST_P(Halves, LargeValuesBecomeInfinity) {
  const std::vector<float> floats = {65519.0F, 65520.0F, 1e30F, -1e30F};
  EXPECT_EQ(narrow(kernels(), DType::float16, floats),
            (std::vector<std::uint16_t>{0x7bff, 0x7c00, 0x7c00, 0xfc00}));
}

TEST_P(Halves, EveryBfloat16IsTheUpperHalfOfItsFloat) {
  const auto halves = all_halves();
  const auto wide = widen(kernels(), DType::bfloat16, halves);
  for (const auto half : halves) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(wide[half]), static_cast<std::uint32_t>(half) << 16);
  }
}

TEST_P(Halves, FloatsRoundToTheNearestBfloat16AndTiesToEven) {
  const auto floats = floats_around_halves();
  const auto halves = narrow(kernels(), DType::bfloat16, floats);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(floats[i]);
    const std::uint32_t upper = bits >> 16;
    const std::uint32_t lower = bits & 0xffffU;
    const bool is_up = lower > 0x8000U || (lower == 0x8000U && (upper & 1U) != 0);
    const std::uint32_t expected = std::isnan(floats[i]) ? upper | 0x40U : upper + (is_up ? 1 : 0);
    ASSERT_EQ(halves[i], expected) << std::hexfloat << floats[i];
  }
}

TEST_P(Halves, AreMultipliedAsFloatsAndRoundedOnce) {
  const auto halves = all_halves();
  for (const DType format : {DType::float16, DType::bfloat16}) {
    auto products = widen(kernels(), format, halves);
    auto scaled = halves;
    kernels().scale[index_of(format)](scaled.data(), scaled.data(), scaled.size(), 0.7);
    std::vector<std::uint16_t> narrowed(halves.size());
    kernels().scale_narrow[index_of(format)](narrowed.data(), products.data(), narrowed.size(),
                                             0.7F);
    for (float& product : products) product *= 0.7F;
    const auto expected = narrow(kernels(), format, products);
    EXPECT_EQ(scaled, expected);
    EXPECT_EQ(narrowed, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Halves, tests::all_variants(), tests::name_of_variant);

}  // namespace
}  // namespace tnt::comm
