#include "tnt/comm/group/buckets.hpp"

#include "tnt/comm/algorithm/direct_bucket_allreduce.hpp"
#include "tnt/comm/algorithm/network/bucket_allreduce.hpp"
#include "tnt/comm/algorithm/network/two_level_bucket_allreduce.hpp"
#include "tnt/comm/algorithm/readable_collectives.hpp"
#include "tnt/comm/algorithm/select.hpp"
#include "tnt/comm/algorithm/slices.hpp"
#include "tnt/comm/algorithm/streamed_bucket_allreduce.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/group/group.hpp"
#include "tnt/comm/group/segment_plan.hpp"
#include "tnt/comm/group/segment_set.hpp"
#include "tnt/comm/group/streams.hpp"

namespace tnt::comm {
namespace {

using Buckets = std::vector<std::shared_ptr<BucketOperation>>;

constexpr std::size_t kCacheLine = 64;

std::size_t num_bytes_of(const BucketSpec& spec) {
  return spec.count * size_of(spec.dtype);
}

BucketLayout add_windows(SegmentPlan& plan, const BucketSpec& spec) {
  BucketLayout layout;
  layout.window_bytes = round_up(num_bytes_of(spec), kCacheLine);
  const auto place = plan.add({layout.num_bytes(), BucketLayout::kNumNotifications});
  layout.offset = place.offset;
  layout.notification = place.notification;
  return layout;
}

// Alone, there is nothing to reduce.
bool is_direct(const BucketSpec& spec, int num_members) {
  return num_members > 1 && num_bytes_of(spec) <= direct_allreduce_limit_bytes(num_members);
}

Buckets create_readable(Group& group, SegmentSet& segments, const std::vector<BucketSpec>& specs) {
  SegmentPlan plan;
  std::vector<BucketLayout> layouts;
  std::size_t num_streamed = 0;
  for (const BucketSpec& spec : specs) {
    const bool is_small = is_direct(spec, group.size());
    layouts.push_back(is_small ? add_windows(plan, spec) : BucketLayout{});
    num_streamed += is_small ? 0 : 1;
  }
  // As for the group's own allreduces of large arrays.
  ChannelLayout channel = ReadableCollectives::layout_with(window_bytes_for(Topology::readable));
  const auto shared =
      plan.add(num_streamed > 0 ? BucketTurns::memory_needs(channel, num_streamed) : MemoryNeeds{});
  const auto segment = segments.create(plan.totals().front());
  channel.offset = shared.offset;
  const auto turns =
      std::make_shared<BucketTurns>(segment, channel, shared.notification, num_streamed);
  Buckets buckets;
  std::size_t next_streamed = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const BucketSpec& spec = specs[i];
    if (is_direct(spec, group.size())) {
      buckets.push_back(std::make_shared<DirectBucketAllreduce>(group.health(), segment, layouts[i],
                                                                spec.dtype, spec.count, spec.name));
    } else {
      buckets.push_back(std::make_shared<StreamedBucketAllreduce>(
          group.health(), turns, next_streamed++, spec.dtype, spec.count, spec.large, spec.name));
    }
  }
  return buckets;
}

MessagePattern pattern_for(const Group& group, const BucketSpec& spec) {
  const AllreduceCase wanted{.num_bytes = num_bytes_of(spec),
                             .dtype = spec.dtype,
                             .topology = group.topology(),
                             .num_members = group.size(),
                             .num_hosts = group.hosts().num_hosts};
  return pattern_of(choose_allreduce(wanted, group.requested_algorithm(), *group.health()));
}

using Segments = std::vector<std::shared_ptr<Segment>>;

Buckets create_put_only(Group& group, SegmentSet& set, const std::vector<BucketSpec>& specs) {
  SegmentPlan plan(group.most_counters());
  std::vector<SegmentPlan::Place> places;
  for (const BucketSpec& spec : specs) {
    places.push_back(plan.add(NetworkBucketAllreduce::memory_needs(
        pattern_for(group, spec), group.size(), spec.dtype, spec.count)));
  }
  Segments segments;
  for (const MemoryNeeds& total : plan.totals()) {
    segments.push_back(set.create(total, Senders::one));
  }
  Buckets buckets;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const BucketSpec& spec = specs[i];
    buckets.push_back(std::make_shared<NetworkBucketAllreduce>(
        group.health(), segments[places[i].segment], pattern_for(group, spec), spec.dtype,
        spec.count, places[i].offset, places[i].notification, spec.name));
  }
  return buckets;
}

// The parts of a bucket over two levels in the three kinds of segments that it needs:
// the window on the host, the slice between the hosts, the roll call of all.
struct TwoLevelPlaces {
  BucketLayout windows;
  SegmentPlan::Place exchange;
  std::size_t roll_call = 0;  // offset
};

Buckets create_two_level(Group& group, SegmentSet& segments, const std::vector<BucketSpec>& specs) {
  const HostLayout& hosts = group.hosts();
  const auto slice_of_spec = [&](const BucketSpec& spec) {
    return TwoLevelBucketAllreduce::slice(spec.count, spec.dtype, hosts, group.rank()).size();
  };
  SegmentPlan on_host;
  SegmentPlan between_hosts(group.most_counters());
  SegmentPlan among_all;
  std::vector<TwoLevelPlaces> places;
  for (const BucketSpec& spec : specs) {
    TwoLevelPlaces& at = places.emplace_back();
    at.windows = add_windows(on_host, spec);
    const std::size_t slice_bytes =
        slice_of_spec(spec) * size_of(PartialReducer::partial_type(spec.dtype));
    at.exchange = between_hosts.add(
        BucketExchange::memory_needs(pattern_for(group, spec), hosts.num_hosts, slice_bytes));
    at.roll_call = among_all.add(RollCall::memory_needs(group.size())).offset;
  }
  const auto host_segment = segments.create_on_host(on_host.totals().front());
  Segments exchange_segments;
  for (const MemoryNeeds& total : between_hosts.totals()) {
    exchange_segments.push_back(segments.create_between_hosts(total, Senders::one));
  }
  const auto group_segment = segments.create(among_all.totals().front());
  Buckets buckets;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const BucketSpec& spec = specs[i];
    const TwoLevelPlaces& at = places[i];
    buckets.push_back(std::make_shared<TwoLevelBucketAllreduce>(
        group.health(),
        BucketWindows(host_segment, at.windows, spec.dtype, WindowPair::Order::reuse),
        BucketExchange(exchange_segments[at.exchange.segment], pattern_for(group, spec),
                       PartialReducer::partial_type(spec.dtype), slice_of_spec(spec),
                       at.exchange.offset, at.exchange.notification),
        RollCall(group_segment, at.roll_call), hosts, group.rank(), spec.dtype, spec.count,
        spec.name));
  }
  return buckets;
}

}  // namespace

Buckets create_buckets(Group& group, SegmentSet& segments, const std::vector<BucketSpec>& specs) {
  switch (group.topology()) {
    case Topology::readable:
      return create_readable(group, segments, specs);
    case Topology::put_only:
      return create_put_only(group, segments, specs);
    case Topology::two_level:
      return create_two_level(group, segments, specs);
  }
  return {};
}

}  // namespace tnt::comm
