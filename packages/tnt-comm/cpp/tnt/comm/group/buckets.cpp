#include "tnt/comm/group/buckets.hpp"

#include "tnt/comm/algorithm/bucket_allreduce.hpp"
#include "tnt/comm/algorithm/network/bucket_allreduce.hpp"
#include "tnt/comm/algorithm/select.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/group/group.hpp"

namespace tnt::comm {
namespace {

using Buckets = std::vector<std::shared_ptr<BucketOperation>>;

constexpr std::size_t kCacheLine = 64;

/// Places one thing after the other in a segment.
class SegmentPlan {
 public:
  struct Place {
    std::size_t offset = 0;
    NotificationId notification = 0;
  };

  Place add(const MemoryNeeds& needs) {
    const Place place{total_.num_bytes, total_.num_notifications};
    total_.num_bytes += round_up(needs.num_bytes, kCacheLine);
    total_.num_notifications += needs.num_notifications;
    return place;
  }
  const MemoryNeeds& total() const { return total_; }

 private:
  MemoryNeeds total_;
};

Buckets create_readable(Group& group, const std::vector<BucketSpec>& specs) {
  SegmentPlan plan;
  std::vector<BucketLayout> layouts;
  for (const BucketSpec& spec : specs) {
    BucketLayout layout;
    layout.window_bytes = round_up(spec.count * size_of(spec.dtype), kCacheLine);
    const auto place = plan.add({layout.num_bytes(), BucketLayout::kNumNotifications});
    layout.offset = place.offset;
    layout.notification = place.notification;
    layouts.push_back(layout);
  }
  const auto segment =
      group.create_segment(plan.total().num_bytes, plan.total().num_notifications);
  Buckets buckets;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    buckets.push_back(std::make_shared<BucketAllreduce>(group.health(), group.stall_report_s(),
                                                        segment, layouts[i], specs[i].dtype,
                                                        specs[i].count, specs[i].name));
  }
  return buckets;
}

MessagePattern pattern_for(const Group& group, const BucketSpec& spec) {
  const AllreduceCase wanted{.num_bytes = spec.count * size_of(spec.dtype),
                             .dtype = spec.dtype,
                             .topology = group.topology(),
                             .num_members = group.size(),
                             .num_hosts = group.hosts().num_hosts};
  return pattern_of(
      choose_allreduce(wanted, group.requested_algorithm(), group.health()->world_rank()));
}

Buckets create_put_only(Group& group, const std::vector<BucketSpec>& specs) {
  SegmentPlan plan;
  std::vector<SegmentPlan::Place> places;
  for (const BucketSpec& spec : specs) {
    places.push_back(plan.add(NetworkBucketAllreduce::memory_needs(
        pattern_for(group, spec), group.size(), spec.dtype, spec.count)));
  }
  const auto segment =
      group.create_segment(plan.total().num_bytes, plan.total().num_notifications);
  Buckets buckets;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const BucketSpec& spec = specs[i];
    buckets.push_back(std::make_shared<NetworkBucketAllreduce>(
        group.health(), group.stall_report_s(), segment, pattern_for(group, spec), spec.dtype,
        spec.count, places[i].offset, places[i].notification, spec.name));
  }
  return buckets;
}

}  // namespace

Buckets create_buckets(Group& group, const std::vector<BucketSpec>& specs) {
  return group.topology() == Topology::readable ? create_readable(group, specs)
                                                : create_put_only(group, specs);
}

}  // namespace tnt::comm
