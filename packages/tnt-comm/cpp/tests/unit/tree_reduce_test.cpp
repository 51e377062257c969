#include "tnt/comm/kernel/kernels.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "naive_tree.hpp"

namespace tnt::comm {
namespace {

using tests::sum_of;
using tests::values_of;

std::vector<const std::byte*> pointers_to(const std::vector<std::vector<float>>& inputs) {
  std::vector<const std::byte*> pointers;
  for (const auto& input : inputs) {
    pointers.push_back(reinterpret_cast<const std::byte*>(input.data()));
  }
  return pointers;
}

class TreeReduce : public ::testing::TestWithParam<int> {
 protected:
  std::vector<std::vector<float>> inputs_of(std::size_t count) const {
    std::vector<std::vector<float>> inputs;
    for (int rank = 0; rank < GetParam(); ++rank) inputs.push_back(values_of(rank, count));
    return inputs;
  }
};

TEST_P(TreeReduce, HasTheBitsOfTheNaiveTree) {
  for (const std::size_t count : {0, 1, 5, 2047, 2048, 2049, 10007}) {
    const auto inputs = inputs_of(count);
    const auto sources = pointers_to(inputs);
    TreeReducer reducer(DType::float32, ReduceOp::sum, SumTree(GetParam()));
    std::vector<float> result(count, -1.0F);
    reducer.reduce(result.data(), sources.data(), sources.size(), count);
    const auto expected = sum_of(GetParam(), count);
    const std::size_t num_bytes = count * sizeof(float);
    EXPECT_TRUE(count == 0 || std::memcmp(result.data(), expected.data(), num_bytes) == 0);
  }
}

TEST_P(TreeReduce, MayWriteOverAnySource) {
  constexpr std::size_t kCount = 5003;
  const auto expected = sum_of(GetParam(), kCount);
  for (int target = 0; target < GetParam(); ++target) {
    auto inputs = inputs_of(kCount);
    const auto sources = pointers_to(inputs);
    TreeReducer reducer(DType::float32, ReduceOp::sum, SumTree(GetParam()));
    reducer.reduce(inputs[static_cast<std::size_t>(target)].data(), sources.data(), sources.size(),
                   kCount);
    EXPECT_EQ(inputs[static_cast<std::size_t>(target)], expected);
  }
}

TEST_P(TreeReduce, WritesToAllTargetsOfWhichAnyMayBeSources) {
  constexpr std::size_t kCount = 5003;
  const auto expected = sum_of(GetParam(), kCount);
  // All sources, and more targets than are written at once.
  auto inputs = inputs_of(kCount);
  std::vector<std::vector<float>> others(6, std::vector<float>(kCount));
  std::vector<std::byte*> targets;
  for (auto* arrays : {&others, &inputs}) {
    for (auto& array : *arrays) targets.push_back(reinterpret_cast<std::byte*>(array.data()));
  }
  const auto sources = pointers_to(inputs);
  TreeReducer reducer(DType::float32, ReduceOp::sum, SumTree(GetParam()));
  for (std::size_t num_targets = 1; num_targets <= others.size(); ++num_targets) {
    reducer.reduce_to({targets.data(), num_targets}, sources.data(), sources.size(), kCount);
    for (std::size_t k = 0; k < others.size(); ++k) {
      EXPECT_EQ(others[k], k < num_targets ? expected : std::vector<float>(kCount));
    }
  }
  reducer.reduce_to(targets, sources.data(), sources.size(), kCount);
  for (const auto& input : inputs) EXPECT_EQ(input, expected);
}

INSTANTIATE_TEST_SUITE_P(Sources, TreeReduce, ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16));

TEST(TreeReduce, BytesWrapAround) {
  const std::vector<std::int8_t> left = {127, -128, 100, -1};
  const std::vector<std::int8_t> right = {1, -1, 100, -1};
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(left.data()),
                                reinterpret_cast<const std::byte*>(right.data())};
  std::vector<std::int8_t> result(4);
  TreeReducer(DType::int8, ReduceOp::sum, SumTree(2)).reduce(result.data(), sources, 2, 4);
  EXPECT_EQ(result, (std::vector<std::int8_t>{-128, 127, -56, -2}));
  TreeReducer(DType::int8, ReduceOp::prod, SumTree(2)).reduce(result.data(), sources, 2, 4);
  EXPECT_EQ(result, (std::vector<std::int8_t>{127, -128, 16, 1}));
}

TEST(TreeReduce, HalvesAreWrittenToAllTargets) {
  const std::vector<std::uint16_t> left(3000, 0x3C00);   // 1
  const std::vector<std::uint16_t> right(3000, 0x4000);  // 2
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(left.data()),
                                reinterpret_cast<const std::byte*>(right.data())};
  std::vector<std::vector<std::uint16_t>> results(5, std::vector<std::uint16_t>(3000));
  std::vector<std::byte*> targets;
  for (auto& result : results) targets.push_back(reinterpret_cast<std::byte*>(result.data()));
  TreeReducer(DType::float16, ReduceOp::sum, SumTree(2)).reduce_to(targets, sources, 2, 3000);
  for (const auto& result : results) {
    EXPECT_EQ(result, std::vector<std::uint16_t>(3000, 0x4200));  // 3
  }
}

}  // namespace
}  // namespace tnt::comm
