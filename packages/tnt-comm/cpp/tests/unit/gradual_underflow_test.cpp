#include "tnt/comm/kernel/table.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "flushing_thread.hpp"
#include "tnt/comm/kernel/kernels.hpp"

namespace tnt::comm {
namespace {

/// Runs a function on a thread that takes subnormal numbers for zeros, which it must do afterwards,
/// too.
template <typename Function>
void on_flushing_thread(Function&& function) {
  bool can_flush = false;
  bool flushes_still = false;
  std::thread([&] {
    can_flush = tests::flush_subnormals();
    if (!can_flush) return;
    function();
    flushes_still = tests::flushes_subnormals();
  }).join();
  if (!can_flush) GTEST_SKIP() << "no such threads on this processor";
  EXPECT_TRUE(flushes_still);
}

// A subnormal number is the integer in its fraction times the smallest one.
template <typename Bits>
void expect_sum_of_bits(DType dtype) {
  const std::vector<Bits> left(3000, 5);
  const std::vector<Bits> right(3000, 7);
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(left.data()),
                                reinterpret_cast<const std::byte*>(right.data())};
  on_flushing_thread([&] {
    std::vector<Bits> result(3000);
    TreeReducer(dtype, ReduceOp::sum, SumTree(2)).reduce(result.data(), sources, 2, 3000);
    EXPECT_EQ(result, std::vector<Bits>(3000, 12));
    TreeReducer(dtype, ReduceOp::max, SumTree(2)).reduce(result.data(), sources, 2, 3000);
    EXPECT_EQ(result, right);
  });
}

TEST(GradualUnderflow, SubnormalsAreAddedAndComparedOnAnyThread) {
  expect_sum_of_bits<std::uint32_t>(DType::float32);
  expect_sum_of_bits<std::uint64_t>(DType::float64);
  expect_sum_of_bits<std::uint16_t>(DType::float16);
  expect_sum_of_bits<std::uint16_t>(DType::bfloat16);
}

TEST(GradualUnderflow, SubnormalsAreScaledOnAnyThread) {
  on_flushing_thread([] {
    const std::uint32_t source = 12;
    std::uint32_t target = 0;
    pack_scaled(&target, &source, 1, DType::float32, 0.5);
    EXPECT_EQ(target, 6U);
  });
}

TEST(GradualUnderflow, ScalingToBfloat16KeepsSubnormals) {
  on_flushing_thread([] {
    const std::uint32_t source = 12U << 16;  // 12 in bfloat16
    std::uint16_t target = 0;
    pack_narrowed(&target, &source, 1, DType::bfloat16, 0.5);
    EXPECT_EQ(target, 6U);
  });
}

TEST(GradualUnderflow, AThreadThatKeepsSubnormalsGoesOnToDoSo) {
  { const GradualUnderflow here; }
  EXPECT_FALSE(tests::flushes_subnormals());
}

}  // namespace
}  // namespace tnt::comm
