#include "tnt/comm/communicator/streams.hpp"

#include <functional>

#include "tnt/comm/collective/buckets.hpp"
#include "tnt/comm/collective/readable_collectives.hpp"
#include "tnt/comm/collective/rma/buckets.hpp"
#include "tnt/comm/collective/rma/rma_collectives.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/group_object.hpp"

namespace tnt::comm {
namespace {

using Buckets = std::vector<std::shared_ptr<HostBucket>>;
using Segments = std::vector<std::shared_ptr<Segment>>;

// What makes the buckets, which are planned all together, when their segments are there.
using Makers = std::vector<std::function<std::shared_ptr<HostBucket>()>>;

Buckets made_by(const Makers& makers) {
  Buckets buckets;
  for (const auto& make : makers) buckets.push_back(make());
  return buckets;
}

std::shared_ptr<StagedStream> ring_in(const Group& group, const std::shared_ptr<Segment>& segment,
                                      const SlotLayout& layout) {
  return std::make_shared<StagedStream>(StagedStream{
      {.abort_state = group.abort_state(), .tree = group.tree()}, SlotRing(segment, layout)});
}

// Alone, there is nothing to reduce.
bool is_one_shot(const BucketSpec& spec, int num_members) {
  return num_members > 1 && spec.num_bytes() <= one_shot_limit_bytes(num_members);
}

Buckets create_readable(Group& group, SegmentSet& segments, const std::vector<BucketSpec>& specs) {
  SegmentPlan plan;
  std::shared_ptr<Segment> segment;
  std::shared_ptr<BucketSequencer> sequencer;
  std::size_t num_large = 0;
  Makers makers;
  for (const BucketSpec& spec : specs) {
    if (is_one_shot(spec, group.size())) {
      SlotLayout layout = OneShotBucket::layout(spec);
      layout.offset = plan.add({layout.num_bytes(), 0}).offset;
      makers.push_back([&, layout] {
        return std::make_shared<OneShotBucket>(ring_in(group, segment, layout), spec);
      });
    } else {
      makers.push_back([&, bucket = num_large++] {
        return std::make_shared<TwoShotBucket>(sequencer, bucket, spec);
      });
    }
  }
  // As for the group's own allreduces of large arrays.
  SlotLayout large = ReadableCollectives::layout_with(slot_bytes_for(Topology::readable));
  const auto shared =
      plan.add(num_large > 0 ? BucketSequencer::memory_needs(large, num_large) : MemoryNeeds{});
  large.offset = shared.offset;
  segment = segments.create(plan.totals().front());
  sequencer = std::make_shared<BucketSequencer>(segment, ring_in(group, segment, large),
                                                shared.notification, num_large);
  return made_by(makers);
}

// Notifications that a segment between hosts has at most.
std::size_t most_counters(const Group& group) {
  return group.runtime().transport().capabilities().most_counters;
}

MessagePattern pattern_for(const Group& group, const BucketSpec& spec) {
  const AllreduceCase wanted{.num_bytes = spec.num_bytes(),
                             .dtype = spec.dtype,
                             .topology = group.topology(),
                             .num_members = group.size(),
                             .num_hosts = group.hosts().num_hosts};
  return pattern_of(
      choose_allreduce(wanted, group.runtime().requested_algorithm(), *group.abort_state()));
}

// The slots of a bucket that is packed in place in the memory at `place`.
std::shared_ptr<RmaStream> slots_in(const Group& group, const SumTree& tree,
                                    const std::shared_ptr<Segment>& segment,
                                    const SegmentPlan::Place& place, RmaLayout layout) {
  layout.offset = place.offset;
  layout.notification = place.notification;
  return std::make_shared<RmaStream>(RmaStream{.abort_state = group.abort_state(),
                                               .tree = tree,
                                               .check = nullptr,
                                               .segment = segment,
                                               .layout = layout});
}

Buckets create_put_only(Group& group, SegmentSet& set, const std::vector<BucketSpec>& specs) {
  SegmentPlan plan(most_counters(group));
  Segments segments;
  Makers makers;
  for (const BucketSpec& spec : specs) {
    const MessagePattern pattern = pattern_for(group, spec);
    const RmaLayout layout = layout_in_place(pattern, group.tree(), spec.num_bytes());
    MemoryNeeds needs = needs_in_place(pattern, group.tree(), spec.num_bytes());
    needs.num_bytes += ArrivalReport::memory_needs(group.size()).num_bytes;  // behind the slots
    makers.push_back([&, pattern, layout, place = plan.add(needs)] {
      const auto& segment = segments[place.segment];
      return std::make_shared<RmaBucket>(slots_in(group, group.tree(), segment, place, layout),
                                         ArrivalReport(segment, place.offset + layout.num_bytes()),
                                         pattern, spec);
    });
  }
  for (const MemoryNeeds& total : plan.totals()) {
    segments.push_back(set.create(total, Senders::one));
  }
  return made_by(makers);
}

// Buckets over two levels, in the three kinds of segments that they need.
Buckets create_hierarchical(Group& group, SegmentSet& set, const std::vector<BucketSpec>& specs) {
  const HostLayout& hosts = group.hosts();
  SegmentPlan on_host;
  SegmentPlan between_hosts(most_counters(group));
  SegmentPlan among_all;
  std::shared_ptr<Segment> host_segment;
  Segments exchange_segments;
  std::shared_ptr<Segment> group_segment;
  Makers makers;
  for (const BucketSpec& spec : specs) {
    SlotLayout ring;
    ring.offset = on_host.add({ring.num_bytes(), 0}).offset;
    const std::size_t slot_bytes = round_up(spec.num_bytes(), kCacheLineBytes);
    const auto slots = on_host.add({DoubleBuffer::kNumSlots * slot_bytes, 0});
    const MessagePattern pattern = pattern_for(group, spec);
    const std::size_t chunk_bytes =
        chunk_of_host(group, spec).size() * size_of(accumulator_of(spec.dtype));
    const RmaLayout exchange = layout_in_place(pattern, hosts.between_hosts, chunk_bytes);
    const auto place = between_hosts.add(needs_in_place(pattern, hosts.between_hosts, chunk_bytes));
    const auto report = among_all.add(ArrivalReport::memory_needs(group.size()));
    makers.push_back([=, &group, &hosts, &spec, &host_segment, &exchange_segments, &group_segment] {
      const HostLevel host{
          .hosts = hosts,
          .ring = std::make_shared<SlotRing>(host_segment, ring),
          .segment = host_segment,
          .slots = std::make_shared<DoubleBuffer>(host_segment, slots.offset, slot_bytes)};
      return std::make_shared<HierarchicalBucket>(
          slots_in(group, hosts.between_hosts, exchange_segments[place.segment], place, exchange),
          ArrivalReport(group_segment, report.offset), host, pattern, spec);
    });
  }
  host_segment = set.create_on_host(on_host.totals().front());
  for (const MemoryNeeds& total : between_hosts.totals()) {
    exchange_segments.push_back(set.create_between_hosts(total, Senders::one));
  }
  group_segment = set.create(among_all.totals().front());
  return made_by(makers);
}

}  // namespace

// Several slots of this size per rank. Large enough that the rounds of a step
// are cheap next to its copies, small enough for what a rank copies in of its
// array to be still in the second-level cache when it reduces. Where messages
// are sent, copies cost little next to them, and shorter blocks overlap better.
std::size_t slot_bytes_for(Topology topology) {
  return topology == Topology::readable ? 512 * 1024 : 256 * 1024;
}

MemoryNeeds stream_needs(Topology topology, const SumTree& tree, std::size_t slot_bytes) {
  return topology == Topology::readable
             ? MemoryNeeds{ReadableCollectives::layout_with(slot_bytes).num_bytes(), 0}
             : RmaCollectives::memory_needs(tree, slot_bytes);
}

void create_levels(SegmentSet& segments, const HostLayout& hosts, StreamMemory& memory) {
  memory.on_host = segments.create_on_host(RmaCollectives::needs_on_host(hosts, memory.slot_bytes));
  memory.between_hosts =
      segments.create_between_hosts(RmaCollectives::needs_between_hosts(hosts, memory.slot_bytes));
}

std::unique_ptr<Collectives> make_stream(const Group& group, const OperationContext& context,
                                         const StreamMemory& memory) {
  if (memory.on_host) {
    return std::make_unique<RmaCollectives>(context, memory, group.hosts());
  }
  if (group.topology() == Topology::readable) {
    return std::make_unique<ReadableCollectives>(context, memory);
  }
  return std::make_unique<RmaCollectives>(context, memory);
}

Range chunk_of_host(const Group& group, const BucketSpec& spec) {
  const HostLayout& hosts = group.hosts();
  return chunk_of(spec.count, spec.dtype, hosts.members_per_host,
                  hosts.local_index_of(group.rank()));
}

Buckets create_chunk_buckets(Group& group, SegmentSet& set, const std::vector<BucketSpec>& specs) {
  const HostLayout& hosts = group.hosts();
  SegmentPlan between_hosts(most_counters(group));
  SegmentPlan among_all;
  Segments exchange_segments;
  std::shared_ptr<Segment> group_segment;
  Makers makers;
  for (const BucketSpec& spec : specs) {
    const MessagePattern pattern = pattern_for(group, spec);
    const BucketSpec chunk{
        accumulator_of(spec.dtype), chunk_of_host(group, spec).size(), spec.name, {}};
    const RmaLayout layout = layout_in_place(pattern, hosts.between_hosts, chunk.num_bytes());
    const auto place =
        between_hosts.add(needs_in_place(pattern, hosts.between_hosts, chunk.num_bytes()));
    const auto report = among_all.add(ArrivalReport::memory_needs(group.size()));
    makers.push_back([=, &group, &hosts, &exchange_segments, &group_segment] {
      return std::make_shared<ChunkBucket>(
          slots_in(group, hosts.between_hosts, exchange_segments[place.segment], place, layout),
          ArrivalReport(group_segment, report.offset), hosts, hosts.local_index_of(group.rank()),
          pattern, chunk);
    });
  }
  for (const MemoryNeeds& total : between_hosts.totals()) {
    exchange_segments.push_back(set.create_between_hosts(total, Senders::one));
  }
  group_segment = set.create(among_all.totals().front());
  return made_by(makers);
}

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
