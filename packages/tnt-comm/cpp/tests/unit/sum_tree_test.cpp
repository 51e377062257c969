#include "tnt/comm/kernel/sum_tree.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "naive_tree.hpp"
#include "tnt/comm/kernel/kernels.hpp"

namespace tnt::comm {
namespace {

using Counts = std::vector<int>;

std::set<int> branches_of(const SumTree& tree) {
  std::set<int> branches;
  for (int part = 1; part <= tree.size(); ++part) {
    if (tree.is_branch_size(part)) branches.insert(part);
  }
  return branches;
}

TEST(SumTree, FoldsAreThePrimeFactorsOfEachCountSmallestFirst) {
  EXPECT_EQ(SumTree(1).folds(), Counts{});
  EXPECT_EQ(SumTree(96).folds(), (Counts{2, 2, 2, 2, 2, 3}));
  EXPECT_EQ(SumTree(Counts{6, 16}).folds(), (Counts{2, 3, 2, 2, 2, 2}));
  EXPECT_EQ(SumTree(Counts{1, 7, 4}).folds(), (Counts{7, 2, 2}));
}

TEST(SumTree, BranchesAreProductsOfTheFirstFolds) {
  EXPECT_EQ(branches_of(SumTree(8)), (std::set<int>{1, 2, 4, 8}));
  EXPECT_EQ(branches_of(SumTree(12)), (std::set<int>{1, 2, 4, 12}));
  EXPECT_EQ(branches_of(SumTree(45)), (std::set<int>{1, 3, 9, 45}));
  EXPECT_EQ(branches_of(SumTree(Counts{6, 4})), (std::set<int>{1, 2, 6, 12, 24}));
}

TEST(SumTree, IsTheBranchesAndWhatIsAboveThem) {
  const SumTree tree(Counts{12, 8});
  EXPECT_EQ(tree.branch(4), SumTree(4));
  EXPECT_EQ(tree.above(4), SumTree(Counts{3, 8}));
  EXPECT_EQ(tree.branch(1), SumTree(1));
  EXPECT_EQ(tree.above(1), tree);
  EXPECT_EQ(tree.branch(96), tree);
  EXPECT_EQ(tree.above(96), SumTree(1));
}

TEST(SumTree, IsTheOrderInWhichAReducerCombines) {
  constexpr std::size_t kCount = 5003;
  for (const Counts& counts : {Counts{3, 2}, Counts{2, 3}, Counts{6, 4}, Counts{4, 6}}) {
    const SumTree tree(counts);
    std::vector<std::vector<float>> inputs;
    std::vector<const std::byte*> sources;
    for (int member = 0; member < tree.size(); ++member) {
      inputs.push_back(tests::values_of(member, kCount));
    }
    for (const auto& input : inputs) {
      sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
    }
    std::vector<float> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      std::vector<float> column;
      for (const auto& input : inputs) column.push_back(input[i]);
      expected[i] = tests::naive_tree(column, counts, [](float a, float b) { return a + b; });
    }
    std::vector<float> result(kCount);
    TreeReducer(DType::float32, ReduceOp::sum, tree)
        .reduce(result.data(), sources.data(), sources.size(), kCount);
    EXPECT_EQ(std::memcmp(result.data(), expected.data(), kCount * sizeof(float)), 0);
  }
}

}  // namespace
}  // namespace tnt::comm
