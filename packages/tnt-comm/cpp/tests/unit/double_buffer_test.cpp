#include <gtest/gtest.h>

#include "tnt/comm/collective/host_bucket.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"

namespace tnt::comm {
namespace {

std::shared_ptr<DoubleBuffer> two_slots() {
  return std::make_shared<DoubleBuffer>(std::make_shared<HeapSegment>(128), 0, 64);
}

TEST(DoubleBuffer, TheSameSlotIsPackedAgainUnlessItIsLent) {
  const auto pair = two_slots();
  const std::size_t first = pair->open(0);
  EXPECT_EQ(pair->open(0), first);  // all tensors of a step go to one slot
  EXPECT_EQ(pair->open(1), first);
  ASSERT_TRUE(pair->try_lend(1));
  EXPECT_EQ(pair->open(2), 1 - first);
  EXPECT_EQ(pair->open(3), 1 - first);  // still lent: the other one again
  pair->take_back(first);
  EXPECT_EQ(pair->open(4), 1 - first);
}

TEST(DoubleBuffer, OnlyOneSlotIsLentAtATime) {
  const auto pair = two_slots();
  const std::size_t first = pair->open(0);
  ASSERT_TRUE(pair->try_lend(0));
  ASSERT_TRUE(pair->try_lend(0));  // another tensor of the same step
  pair->open(1);
  EXPECT_FALSE(pair->try_lend(1));
  pair->take_back(first);
  EXPECT_FALSE(pair->try_lend(1));
  pair->take_back(first);
  EXPECT_TRUE(pair->try_lend(1));
  EXPECT_EQ(pair->open(2), first);
}

TEST(DoubleBuffer, ASlotThatIsPackedAgainIsNotLent) {
  const auto pair = two_slots();
  pair->open(0);
  pair->open(1);  // one tensor is ahead of another, which is still to be finished
  EXPECT_FALSE(pair->try_lend(0));
}

TEST(DoubleBuffer, TheRestOfAStepIsLentAfterTheNextWasOpenedElsewhere) {
  const auto pair = two_slots();
  const std::size_t first = pair->open(0);
  ASSERT_TRUE(pair->try_lend(0));
  EXPECT_EQ(pair->open(1), 1 - first);
  EXPECT_TRUE(pair->try_lend(0));
}

}  // namespace
}  // namespace tnt::comm
