#include "tnt/comm/collective/rma/schedule.hpp"

#include <gtest/gtest.h>

namespace tnt::comm {
namespace {

TEST(Levels, RadicesMultiplyToTheNumberOfMembersSmallestFirst) {
  for (int size = 1; size <= 64; ++size) {
    for (const Radices radices : {Radices::one, Radices::primes}) {
      int product = 1;
      int before = 2;
      for (const Level& level : levels_of(SumTree(size), radices)) {
        EXPECT_EQ(level.stride, product);
        EXPECT_GE(level.radix, before);
        before = level.radix;
        product *= level.radix;
      }
      EXPECT_EQ(product, size);
    }
  }
}

TEST(Levels, TeammatesHaveAllDigitsOfTheLevelAndAreEachOthersTeammates) {
  for (int size = 2; size <= 64; ++size) {
    for (const Level& level : levels_of(SumTree(size), Radices::primes)) {
      for (int member = 0; member < size; ++member) {
        for (int digit = 0; digit < level.radix; ++digit) {
          const int other = level.teammate(member, digit);
          ASSERT_GE(other, 0);
          ASSERT_LT(other, size);
          EXPECT_EQ(level.digit_of(other), digit);
          EXPECT_EQ(level.teammate(other, level.digit_of(member)), member);
        }
      }
    }
  }
}

std::vector<int> hosts_with(const std::vector<int>& counts) {
  std::vector<int> hosts;
  for (std::size_t host = 0; host < counts.size(); ++host) {
    hosts.insert(hosts.end(), static_cast<std::size_t>(counts[host]), static_cast<int>(host));
  }
  return hosts;
}

HostLayout layout_of(const std::vector<int>& counts) {
  const std::vector<int> hosts = hosts_with(counts);
  return host_layout(hosts, SumTree(static_cast<int>(hosts.size())));
}

TEST(HostLayout, EqualHostsWithABranchEachHaveHierarchicals) {
  for (const auto& counts : std::vector<std::vector<int>>{{2, 2}, {4, 4}, {2, 2, 2}, {3, 3, 3}}) {
    const HostLayout layout = layout_of(counts);
    EXPECT_TRUE(layout.has_branches);
    EXPECT_EQ(layout.num_hosts, static_cast<int>(counts.size()));
    EXPECT_EQ(layout.members_per_host, counts.front());
    EXPECT_EQ(layout.objection, "");
  }
}

TEST(HostLayout, AnotherOrderMakesBranchesOfAnyNumberOfRanks) {
  const HostLayout layout = host_layout(hosts_with({6, 6, 6, 6}), SumTree(std::vector<int>{6, 4}));
  EXPECT_TRUE(layout.has_branches);
  EXPECT_EQ(layout.members_per_host, 6);
  EXPECT_EQ(layout.on_host, SumTree(6));
  EXPECT_EQ(layout.between_hosts, SumTree(4));
}

TEST(HostLayout, OneHostOrOneRankPerHostNeedNoLevelsAndNoWarning) {
  for (const auto& counts : std::vector<std::vector<int>>{{1}, {5}, {1, 1, 1}}) {
    const HostLayout layout = layout_of(counts);
    EXPECT_FALSE(layout.has_branches);
    EXPECT_EQ(layout.objection, "");
  }
}

TEST(HostLayout, OtherwiseItSaysWhyAndWhichNumbersOfRanksWouldFit) {
  const HostLayout uneven = layout_of({3, 1});
  EXPECT_FALSE(uneven.has_branches);
  EXPECT_NE(uneven.objection.find("between 1 and 3 ranks"), std::string::npos);
  EXPECT_NE(uneven.objection.find("2 or 4"), std::string::npos);
  const HostLayout no_branch = layout_of({3, 3});
  EXPECT_FALSE(no_branch.has_branches);
  EXPECT_NE(no_branch.objection.find("2 or 4 ranks on each of the 2 hosts"), std::string::npos);
  EXPECT_NE(no_branch.objection.find("TNT_SUM_TREE=3x2"), std::string::npos);
}

}  // namespace
}  // namespace tnt::comm
