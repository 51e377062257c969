#include "tnt/comm/algorithm/descriptor.hpp"

#include <gtest/gtest.h>

namespace tnt::comm {
namespace {

TEST(Descriptor, EveryFieldMatters) {
  const Descriptor base{.call_index = 3, .kind = CollectiveKind::allreduce, .count = 5};
  EXPECT_TRUE(base.matches(base));
  Descriptor other = base;
  other.call_index = 4;
  EXPECT_FALSE(base.matches(other));
  other = base;
  other.count = 6;
  EXPECT_FALSE(base.matches(other));
  other = base;
  other.op = ReduceOp::max;
  EXPECT_FALSE(base.matches(other));
  other = base;
  other.dtype = DType::float64;
  EXPECT_FALSE(base.matches(other));
}

TEST(Descriptor, BlocksOfAllgatherMayDifferInSize) {
  const Descriptor left{.kind = CollectiveKind::allgather, .count = 5};
  const Descriptor right{.kind = CollectiveKind::allgather, .count = 6};
  EXPECT_TRUE(left.matches(right));
}

}  // namespace
}  // namespace tnt::comm
