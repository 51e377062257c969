#include "tnt/comm/kernel/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {
namespace {

// IEEE 754 binary16, spelled out.
double value_of_float16(std::uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int fraction = half & 0x3ff;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Float16, EveryValueWidensExactlyAndComesBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = widen_float16(half);
    const double expected = value_of_float16(half);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_TRUE(std::isnan(value_of_float16(narrow_float16(wide))));
    } else {
      EXPECT_EQ(static_cast<double>(wide), expected);
      EXPECT_EQ(narrow_float16(wide), half);
    }
  }
}

TEST(Float16, ValuesBetweenTwoNeighboursRoundToTheNearerAndTiesToEven) {
  for (std::uint16_t low = 0; low < 0x7bff; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const float middle = (widen_float16(low) + widen_float16(high)) / 2;
    const std::uint16_t even = (low & 1) == 0 ? low : high;
    EXPECT_EQ(narrow_float16(middle), even);
    EXPECT_EQ(narrow_float16(std::nextafter(middle, 0.0F)), low);
    EXPECT_EQ(narrow_float16(std::nextafter(middle, 1e6F)), high);
    EXPECT_EQ(narrow_float16(-middle), even | 0x8000);
  }
}

TEST(Float16, LargeValuesBecomeInfinity) {
  EXPECT_EQ(narrow_float16(65519.0F), 0x7bff);
  EXPECT_EQ(narrow_float16(65520.0F), 0x7c00);
  EXPECT_EQ(narrow_float16(1e30F), 0x7c00);
  EXPECT_EQ(narrow_float16(-1e30F), 0xfc00);
}

TEST(Bfloat16, EveryValueComesBackAndTiesGoToEven) {
  for (int bits = 0; bits < 0x7f80; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    EXPECT_EQ(narrow_bfloat16(widen_bfloat16(half)), half);
    const std::uint32_t tie = (static_cast<std::uint32_t>(bits) << 16) | 0x8000U;
    EXPECT_EQ(narrow_bfloat16(float_of(tie)), (bits & 1) == 0 ? bits : bits + 1);
    EXPECT_EQ(narrow_bfloat16(float_of(tie - 1)), bits);
    EXPECT_EQ(narrow_bfloat16(float_of(tie + 1)), bits + 1);
  }
  EXPECT_TRUE(std::isnan(widen_bfloat16(narrow_bfloat16(float_of(0x7f800001U)))));
}

TEST(KernelVariants, ConvertAlike) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (int format = 0; format < 2; ++format) {
    std::vector<float> baseline(all.size());
    std::vector<float> chosen(all.size());
    baseline_kernels().widen[format](baseline.data(), all.data(), all.size());
    kernels().widen[format](chosen.data(), all.data(), all.size());
    EXPECT_EQ(std::memcmp(baseline.data(), chosen.data(), all.size() * sizeof(float)), 0);
    std::vector<std::uint16_t> left(all.size());
    std::vector<std::uint16_t> right(all.size());
    for (float& value : baseline) value *= 1.0009F;
    baseline_kernels().narrow[format](left.data(), baseline.data(), all.size());
    kernels().narrow[format](right.data(), baseline.data(), all.size());
    EXPECT_EQ(left, right);
  }
}

}  // namespace
}  // namespace tnt::comm
