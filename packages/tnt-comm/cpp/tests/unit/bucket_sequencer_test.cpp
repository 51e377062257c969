#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "scripted_segment.hpp"
#include "tnt/comm/collective/buckets.hpp"

namespace tnt::comm {
namespace {

TEST(BucketSequencer, AsksNoBucketThatHasFailed) {
  const auto segment = std::make_shared<tests::ScriptedSegment>(1, 2, 64);
  segment->set_notification(0, 2, 1);  // rank 0 has posted the second bucket
  BucketSequencer sequencer(segment, nullptr, 0, 2);
  std::optional<StagingPipeline> first(nullptr);
  std::optional<StagingPipeline> second(nullptr);
  sequencer.begin(*first);
  sequencer.abandon(*second);
  EXPECT_EQ(sequencer.missing(1, 0), std::vector<int>{});  // what the first one waits for
  sequencer.abandon(*first);
  first.reset();
  EXPECT_EQ(sequencer.missing(1, 0), std::vector<int>{0});  // its turn
}

}  // namespace
}  // namespace tnt::comm
