#include "tnt/comm/collective/descriptor.hpp"

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

TEST(Descriptor, FingerprintsAreEqualWhereDescriptorsMatch) {
  const Descriptor base{.call_index = 3, .kind = CollectiveKind::allreduce, .count = 5};
  for (const Descriptor& other :
       {Descriptor{.call_index = 4, .kind = CollectiveKind::allreduce, .count = 5},
        Descriptor{.call_index = 3, .kind = CollectiveKind::broadcast, .count = 5},
        Descriptor{.call_index = 3, .kind = CollectiveKind::allreduce, .root = 1, .count = 5},
        Descriptor{.call_index = 3,
                   .kind = CollectiveKind::allreduce,
                   .algorithm = AllreduceAlgorithm::two_shot,
                   .count = 5},
        Descriptor{.call_index = 3, .kind = CollectiveKind::allreduce, .count = 5, .shape = 1},
        Descriptor{.call_index = 3, .kind = CollectiveKind::allreduce, .count = 5ULL << 40U}}) {
    EXPECT_FALSE(base.matches(other)) << other.describe();
    EXPECT_NE(base.fingerprint(), other.fingerprint()) << other.describe();
  }
  const Descriptor left{.kind = CollectiveKind::allgather, .count = 5};
  const Descriptor right{.kind = CollectiveKind::allgather, .count = 6};
  EXPECT_EQ(left.fingerprint(), right.fingerprint());
}

TEST(Descriptor, SaysWhichAlgorithmTheEnvironmentAsksFor) {
  Descriptor descriptor{.kind = CollectiveKind::allreduce, .dtype = DType::float32, .count = 2};
  EXPECT_EQ(descriptor.describe(), "allreduce(float32, 2 elements, sum)");
  descriptor.algorithm = AllreduceAlgorithm::pipelined;
  EXPECT_EQ(descriptor.describe(),
            "allreduce(float32, 2 elements, sum, TNT_ALLREDUCE_ALGORITHM=pipelined)");
}

TEST(Descriptor, BlocksOfAllgatherMayDifferInSize) {
  const Descriptor left{.kind = CollectiveKind::allgather, .count = 5};
  const Descriptor right{.kind = CollectiveKind::allgather, .count = 6};
  EXPECT_TRUE(left.matches(right));
}

}  // namespace
}  // namespace tnt::comm
