#include "tnt/comm/communicator/buckets.hpp"

#include "tnt/comm/base/cache_line.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/chunks.hpp"
#include "tnt/comm/collective/one_shot_bucket_allreduce.hpp"
#include "tnt/comm/collective/readable_collectives.hpp"
#include "tnt/comm/collective/rma/bucket_allreduce.hpp"
#include "tnt/comm/collective/rma/hierarchical_bucket_allreduce.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/collective/two_shot_bucket_allreduce.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/segment_plan.hpp"
#include "tnt/comm/communicator/segment_set.hpp"
#include "tnt/comm/communicator/streams.hpp"

namespace tnt::comm {
namespace {

using Buckets = std::vector<std::shared_ptr<BucketOperation>>;

std::size_t num_bytes_of(const BucketSpec& spec) {
  return spec.count * size_of(spec.dtype);
}

BucketLayout add_slots(SegmentPlan& plan, const BucketSpec& spec) {
  BucketLayout layout;
  layout.slot_bytes = round_up(num_bytes_of(spec), kCacheLineBytes);
  const auto place = plan.add({layout.num_bytes(), BucketLayout::kNumNotifications});
  layout.offset = place.offset;
  layout.notification = place.notification;
  return layout;
}

// Alone, there is nothing to reduce.
bool is_one_shot(const BucketSpec& spec, int num_members) {
  return num_members > 1 && num_bytes_of(spec) <= one_shot_limit_bytes(num_members);
}

Buckets create_readable(Group& group, SegmentSet& segments, const std::vector<BucketSpec>& specs) {
  SegmentPlan plan;
  std::vector<BucketLayout> layouts;
  std::size_t num_streamed = 0;
  for (const BucketSpec& spec : specs) {
    const bool is_small = is_one_shot(spec, group.size());
    layouts.push_back(is_small ? add_slots(plan, spec) : BucketLayout{});
    num_streamed += is_small ? 0 : 1;
  }
  // As for the group's own allreduces of large arrays.
  ChannelLayout channel = ReadableCollectives::layout_with(slot_bytes_for(Topology::readable));
  const auto shared = plan.add(
      num_streamed > 0 ? BucketSequencer::memory_needs(channel, num_streamed) : MemoryNeeds{});
  const auto segment = segments.create(plan.totals().front());
  channel.offset = shared.offset;
  const auto sequencer =
      std::make_shared<BucketSequencer>(segment, channel, shared.notification, num_streamed);
  Buckets buckets;
  std::size_t next_streamed = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const BucketSpec& spec = specs[i];
    if (is_one_shot(spec, group.size())) {
      buckets.push_back(std::make_shared<OneShotBucketAllreduce>(
          group.abort_state(), segment, layouts[i], spec.dtype, spec.count, spec.name));
    } else {
      buckets.push_back(
          std::make_shared<TwoShotBucketAllreduce>(group.abort_state(), sequencer, next_streamed++,
                                                   spec.dtype, spec.count, spec.large, spec.name));
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
  return pattern_of(choose_allreduce(wanted, group.requested_algorithm(), *group.abort_state()));
}

using Segments = std::vector<std::shared_ptr<Segment>>;

Buckets create_put_only(Group& group, SegmentSet& set, const std::vector<BucketSpec>& specs) {
  SegmentPlan plan(group.most_counters());
  std::vector<SegmentPlan::Place> places;
  for (const BucketSpec& spec : specs) {
    places.push_back(plan.add(RmaBucketAllreduce::memory_needs(
        pattern_for(group, spec), group.size(), spec.dtype, spec.count)));
  }
  Segments segments;
  for (const MemoryNeeds& total : plan.totals()) {
    segments.push_back(set.create(total, Senders::one));
  }
  Buckets buckets;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const BucketSpec& spec = specs[i];
    buckets.push_back(std::make_shared<RmaBucketAllreduce>(
        group.abort_state(), segments[places[i].segment], pattern_for(group, spec), spec.dtype,
        spec.count, places[i].offset, places[i].notification, spec.name));
  }
  return buckets;
}

// The parts of a bucket over two levels in the three kinds of segments that it needs:
// the slot on the host, the chunk between the hosts, the arrival report of all.
struct HierarchicalOffsets {
  BucketLayout slots;
  SegmentPlan::Place exchange;
  std::size_t arrival_report = 0;  // offset
};

Buckets create_hierarchical(Group& group, SegmentSet& segments,
                            const std::vector<BucketSpec>& specs) {
  const HostLayout& hosts = group.hosts();
  const auto chunk_of_spec = [&](const BucketSpec& spec) {
    return HierarchicalBucketAllreduce::chunk(spec.count, spec.dtype, hosts, group.rank()).size();
  };
  SegmentPlan on_host;
  SegmentPlan between_hosts(group.most_counters());
  SegmentPlan among_all;
  std::vector<HierarchicalOffsets> places;
  for (const BucketSpec& spec : specs) {
    HierarchicalOffsets& at = places.emplace_back();
    at.slots = add_slots(on_host, spec);
    const std::size_t chunk_bytes = chunk_of_spec(spec) * size_of(accumulator_of(spec.dtype));
    at.exchange = between_hosts.add(
        BucketExchange::memory_needs(pattern_for(group, spec), hosts.num_hosts, chunk_bytes));
    at.arrival_report = among_all.add(ArrivalReport::memory_needs(group.size())).offset;
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
    const HierarchicalOffsets& at = places[i];
    buckets.push_back(std::make_shared<HierarchicalBucketAllreduce>(
        group.abort_state(),
        BucketStaging(host_segment, at.slots, spec.dtype, DoubleBuffer::Order::reuse),
        BucketExchange(exchange_segments[at.exchange.segment], pattern_for(group, spec),
                       accumulator_of(spec.dtype), chunk_of_spec(spec), at.exchange.offset,
                       at.exchange.notification),
        ArrivalReport(group_segment, at.arrival_report), hosts, group.rank(), spec.dtype,
        spec.count, spec.name));
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
    case Topology::hierarchical:
      return create_hierarchical(group, segments, specs);
  }
  return {};
}

}  // namespace tnt::comm
