#include "tnt/comm/reducer/plan.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

std::vector<std::size_t> bucket_sizes(std::size_t threshold_floats) {
  std::vector<TensorSpec> tensors;
  for (const std::size_t count : {81, 2, 17, 94}) {  // planned from the last to the first
    tensors.push_back({.name = "t", .dtype = DType::float32, .num_elements = count});
  }
  std::vector<std::size_t> sizes;
  const FusionPlan plan(tensors, threshold_floats * sizeof(float));
  for (const Bucket& bucket : plan.buckets()) sizes.push_back(bucket.num_elements);
  return sizes;
}

TEST(FusionPlan, GoldenExamples) {
  using Sizes = std::vector<std::size_t>;
  EXPECT_EQ(bucket_sizes(2), (Sizes{94, 17, 2, 81}));
  EXPECT_EQ(bucket_sizes(10), (Sizes{94, 17, 83}));
  EXPECT_EQ(bucket_sizes(100), (Sizes{111, 83}));
  EXPECT_EQ(bucket_sizes(112), (Sizes{113, 81}));
  EXPECT_EQ(bucket_sizes(200), (Sizes{194}));
}

TEST(FusionPlan, TensorsLargerThanAnyMemoryAreRefused) {
  constexpr std::size_t kMany = std::numeric_limits<std::size_t>::max() / 8;
  const TensorSpec huge{.name = "huge", .dtype = DType::float64, .num_elements = kMany + 1};
  const TensorSpec large{.name = "large", .dtype = DType::int8, .num_elements = kMany / 600};
  EXPECT_THROW(FusionPlan({huge}, 8), UsageError);
  EXPECT_NO_THROW(FusionPlan({large}, 8));
  EXPECT_THROW(FusionPlan({large, large}, 8), UsageError);
}

TEST(FusionPlan, DescriptionsTellPlansApart) {
  const FusionPlan plan({{.name = "a", .dtype = DType::float32, .num_elements = 3}}, 8);
  EXPECT_EQ(
      describe(plan),
      "a fusion threshold of 8 bytes\nthe wire dtype none\ntensor 0 'a' (float32, 3 elements)\n");
  EXPECT_EQ(describe_bucket(plan, 0, "g"), "bucket 0 of 'g' ('a')");
}

}  // namespace
}  // namespace tnt::comm
