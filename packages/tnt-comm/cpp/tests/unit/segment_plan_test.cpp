// Notifications are few on some networks: how many buckets there may be.

#include <gtest/gtest.h>

#include "tnt/comm/collective/rma/buckets.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/communicator/group_object.hpp"

namespace tnt::comm {
namespace {

// What GPI-2 has.
constexpr std::size_t kMostNotifications = 65536;
constexpr std::size_t kMostSegments = 255;
constexpr std::size_t kNumBuckets = 2000;

// The segments between `num_hosts` for as many buckets.
std::vector<MemoryNeeds> segments_for(const MessagePattern& pattern, int num_hosts,
                                      std::size_t num_bytes) {
  SegmentPlan plan(kMostNotifications);
  for (std::size_t i = 0; i < kNumBuckets; ++i) {
    plan.add(needs_in_place(pattern, SumTree(num_hosts), num_bytes));
  }
  return plan.totals();
}

TEST(SegmentPlan, TwoThousandBucketsOfAThousandRanksNeedOneSegment) {
  for (const AllreduceAlgorithm algorithm :
       {AllreduceAlgorithm::recursive_doubling, AllreduceAlgorithm::halving_doubling,
        AllreduceAlgorithm::pipelined}) {
    const auto segments = segments_for(pattern_of(algorithm), 1024, 1 << 20);
    EXPECT_EQ(segments.size(), 1);
    EXPECT_LE(segments.front().num_notifications, 2 * 10 * kNumBuckets);  // log2(1024) partners
  }
}

TEST(SegmentPlan, TheChosenAlgorithmsNeedNoMoreThanGpi2HasForAnyNumberOfHosts) {
  // Groups, gatherers and reducers of a job need some more.
  constexpr std::size_t kMostForBuckets = kMostSegments / 2;
  for (const int num_hosts : {2, 3, 64, 100, 1000, 1021, 1024}) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      for (const std::size_t num_bytes : {4U << 10U, 256U << 10U, 25U << 20U}) {
        for (const int per_host : {1, 8}) {
          const AllreduceCase wanted{
              .num_bytes = num_bytes,
              .dtype = dtype,
              .topology = per_host == 1 ? Topology::put_only : Topology::hierarchical,
              .num_members = num_hosts * per_host,
              .num_hosts = num_hosts};
          const auto pattern = pattern_of(choose_allreduce(wanted, AllreduceAlgorithm::automatic));
          const auto segments = segments_for(pattern, num_hosts, num_bytes);
          EXPECT_LE(segments.size(), kMostForBuckets) << num_hosts << " hosts";
          for (const MemoryNeeds& needs : segments) {
            EXPECT_LE(needs.num_notifications, kMostNotifications);
          }
        }
      }
    }
  }
}

TEST(SegmentPlan, PlacesOneAfterTheOtherAndGoesOnInTheNextSegment) {
  SegmentPlan plan(10);
  const auto expect_at = [&](const MemoryNeeds& needs, std::size_t segment, std::size_t offset,
                             NotificationId notification) {
    const SegmentPlan::Place place = plan.add(needs);
    EXPECT_EQ(place.segment, segment);
    EXPECT_EQ(place.offset, offset);
    EXPECT_EQ(place.notification, notification);
  };
  expect_at({65, 4}, 0, 0, 0);
  expect_at({1, 6}, 0, 128, 4);
  expect_at({1, 1}, 1, 0, 0);
  expect_at({1, 10}, 2, 0, 0);
  expect_at({64, 0}, 2, 64, 10);
  EXPECT_EQ(plan.totals().size(), 3);
  EXPECT_EQ(plan.totals()[2].num_bytes, 128);
  EXPECT_EQ(plan.totals()[2].num_notifications, 10);
}

TEST(SegmentPlan, ASegmentIsNeverEmpty) {
  const std::vector<MemoryNeeds> totals = SegmentPlan().totals();
  ASSERT_EQ(totals.size(), 1);
  EXPECT_GT(totals.front().num_bytes, 0);
  EXPECT_GT(totals.front().num_notifications, 0);
}

}  // namespace
}  // namespace tnt::comm
