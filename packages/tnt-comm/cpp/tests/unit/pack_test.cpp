#include "tnt/comm/kernel/kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

TEST(PackScaled, MultipliesOnce) {
  const std::vector<float> source = {1.5F, -2.0F, 3e30F};
  std::vector<float> target(3);
  pack_scaled(target.data(), source.data(), 3, DType::float32, 0.1);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(target[i], 0.1F * source[i]);
}

TEST(PackScaled, ZeroWritesZerosWhateverTheSourceHolds) {
  const std::vector<double> source = {std::nan(""), std::numeric_limits<double>::infinity()};
  std::vector<double> target(2, 7.0);
  pack_scaled(target.data(), source.data(), 2, DType::float64, 0.0);
  EXPECT_EQ(target, (std::vector<double>{0.0, 0.0}));
}

TEST(PackScaled, NoElementsTouchNothing) {
  pack_scaled(nullptr, nullptr, 0, DType::float32, 0.5);
}

TEST(RequireScalable, IntegersOnlyByZeroOrOne) {
  EXPECT_NO_THROW(require_scalable(DType::float16, 0.3));
  EXPECT_NO_THROW(require_scalable(DType::int32, 1.0));
  EXPECT_NO_THROW(require_scalable(DType::boolean, 0.0));
  EXPECT_THROW(require_scalable(DType::int32, 0.5), UsageError);
}

}  // namespace
}  // namespace tnt::comm
