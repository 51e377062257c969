#include "tnt/comm/communicator/buckets.hpp"

#include <utility>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/buckets.hpp"
#include "tnt/comm/collective/readable_collectives.hpp"
#include "tnt/comm/collective/rma/buckets.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/segment_set.hpp"
#include "tnt/comm/communicator/streams.hpp"

namespace tnt::comm {
namespace {

using Buckets = std::vector<std::shared_ptr<BucketOperation>>;

std::shared_ptr<StagedStream> channel_in(const Group& group,
                                         const std::shared_ptr<Segment>& segment,
                                         const ChannelLayout& layout) {
  OperationContext context;
  context.abort_state = group.abort_state();
  return std::make_shared<StagedStream>(StagedStream{std::move(context), Channel(segment, layout)});
}

// Alone, there is nothing to reduce.
bool is_one_shot(const BucketSpec& spec, int num_members) {
  return num_members > 1 && spec.num_bytes() <= one_shot_limit_bytes(num_members);
}

Buckets create_readable(Group& group, SegmentSet& segments, const std::vector<BucketSpec>& specs) {
  SegmentPlan plan;
  std::vector<ChannelLayout> layouts;  // of the small ones
  for (const BucketSpec& spec : specs) {
    if (!is_one_shot(spec, group.size())) continue;
    ChannelLayout& layout = layouts.emplace_back(OneShotBucket::layout(spec));
    layout.offset = plan.add({layout.num_bytes(), 0}).offset;
  }
  const std::size_t num_large = specs.size() - layouts.size();
  // As for the group's own allreduces of large arrays.
  ChannelLayout large = ReadableCollectives::layout_with(slot_bytes_for(Topology::readable));
  const auto shared =
      plan.add(num_large > 0 ? BucketSequencer::memory_needs(large, num_large) : MemoryNeeds{});
  large.offset = shared.offset;
  const auto segment = segments.create(plan.totals().front());
  const auto sequencer = std::make_shared<BucketSequencer>(
      segment, channel_in(group, segment, large), shared.notification, num_large);
  Buckets buckets;
  auto small = layouts.begin();
  std::size_t next_large = 0;
  for (const BucketSpec& spec : specs) {
    if (is_one_shot(spec, group.size())) {
      buckets.push_back(
          std::make_shared<OneShotBucket>(channel_in(group, segment, *small++), spec));
    } else {
      buckets.push_back(std::make_shared<TwoShotBucket>(sequencer, next_large++, spec));
    }
  }
  return buckets;
}

MessagePattern pattern_for(const Group& group, const BucketSpec& spec) {
  const AllreduceCase wanted{.num_bytes = spec.num_bytes(),
                             .dtype = spec.dtype,
                             .topology = group.topology(),
                             .num_members = group.size(),
                             .num_hosts = group.hosts().num_hosts};
  return pattern_of(choose_allreduce(wanted, group.requested_algorithm(), *group.abort_state()));
}

// The slots of a bucket that is packed in place in the memory at `place`.
std::shared_ptr<RmaStream> slots_in(const Group& group, const std::shared_ptr<Segment>& segment,
                                    const SegmentPlan::Place& place, RmaLayout layout) {
  layout.offset = place.offset;
  layout.notification = place.notification;
  return std::make_shared<RmaStream>(RmaStream{
      .abort_state = group.abort_state(), .check = nullptr, .segment = segment, .layout = layout});
}

using Segments = std::vector<std::shared_ptr<Segment>>;

Buckets create_put_only(Group& group, SegmentSet& set, const std::vector<BucketSpec>& specs) {
  const std::size_t report_bytes = ArrivalReport::memory_needs(group.size()).num_bytes;
  SegmentPlan plan(group.most_counters());
  std::vector<SegmentPlan::Place> places;
  for (const BucketSpec& spec : specs) {
    MemoryNeeds needs = needs_in_place(pattern_for(group, spec), group.size(), spec.num_bytes());
    needs.num_bytes += report_bytes;  // behind the slots
    places.push_back(plan.add(needs));
  }
  Segments segments;
  for (const MemoryNeeds& total : plan.totals()) {
    segments.push_back(set.create(total, Senders::one));
  }
  Buckets buckets;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const MessagePattern pattern = pattern_for(group, specs[i]);
    const auto& segment = segments[places[i].segment];
    const RmaLayout layout = layout_in_place(pattern, group.size(), specs[i].num_bytes());
    buckets.push_back(std::make_shared<RmaBucket>(
        slots_in(group, segment, places[i], layout),
        ArrivalReport(segment, places[i].offset + layout.num_bytes()), pattern, specs[i]));
  }
  return buckets;
}

// A bucket over two levels in the three kinds of segments that it needs.
struct HierarchicalPlaces {
  ChannelLayout channel;                  // on the host
  std::size_t slots = 0, slot_bytes = 0;  // likewise: offset and size
  RmaLayout exchange;                     // of the chunk, between the hosts
  SegmentPlan::Place between_hosts;
  std::size_t arrival_report = 0;  // offset, among all
};

Buckets create_hierarchical(Group& group, SegmentSet& segments,
                            const std::vector<BucketSpec>& specs) {
  const HostLayout& hosts = group.hosts();
  SegmentPlan on_host;
  SegmentPlan between_hosts(group.most_counters());
  SegmentPlan among_all;
  std::vector<HierarchicalPlaces> places;
  for (const BucketSpec& spec : specs) {
    HierarchicalPlaces& at = places.emplace_back();
    at.channel.offset = on_host.add({at.channel.num_bytes(), 0}).offset;
    at.slot_bytes = round_up(spec.num_bytes(), kCacheLineBytes);
    at.slots = on_host.add({DoubleBuffer::kNumSlots * at.slot_bytes, 0}).offset;
    const MessagePattern pattern = pattern_for(group, spec);
    const Range chunk = chunk_of(spec.count, spec.dtype, hosts.members_per_host,
                                 hosts.local_index_of(group.rank()));
    const std::size_t chunk_bytes = chunk.size() * size_of(accumulator_of(spec.dtype));
    at.exchange = layout_in_place(pattern, hosts.num_hosts, chunk_bytes);
    at.between_hosts = between_hosts.add(needs_in_place(pattern, hosts.num_hosts, chunk_bytes));
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
    const HierarchicalPlaces& at = places[i];
    buckets.push_back(std::make_shared<HierarchicalBucket>(
        slots_in(group, exchange_segments[at.between_hosts.segment], at.between_hosts, at.exchange),
        ArrivalReport(group_segment, at.arrival_report),
        HostLevel{.hosts = hosts,
                  .channel = std::make_shared<Channel>(host_segment, at.channel),
                  .segment = host_segment,
                  .slots = std::make_shared<DoubleBuffer>(host_segment, at.slots, at.slot_bytes)},
        pattern_for(group, specs[i]), specs[i]));
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
