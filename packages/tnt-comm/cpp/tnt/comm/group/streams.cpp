#include "tnt/comm/group/streams.hpp"

#include <utility>

#include "tnt/comm/algorithm/network/put_only_collectives.hpp"
#include "tnt/comm/algorithm/network/two_level_collectives.hpp"
#include "tnt/comm/algorithm/readable_collectives.hpp"
#include "tnt/comm/group/group.hpp"
#include "tnt/comm/group/segment_set.hpp"

namespace tnt::comm {

// Several windows of this size per rank. Large enough that the rounds of a step
// are cheap next to its copies, small enough for what a rank copies in of its
// array to be still in the second-level cache when it reduces. Where messages
// are sent, copies cost little next to them, and shorter pieces overlap better.
std::size_t window_bytes_for(Topology topology) {
  return topology == Topology::readable ? 512 * 1024 : 256 * 1024;
}

MemoryNeeds stream_needs(Topology topology, int num_members, std::size_t window_bytes) {
  return topology == Topology::readable
             ? ReadableCollectives::memory_needs(window_bytes)
             : PutOnlyCollectives::memory_needs(num_members, window_bytes);
}

void create_levels(SegmentSet& segments, const HostLayout& hosts, StreamMemory& memory) {
  memory.on_host = segments.create_on_host(
      TwoLevelCollectives::needs_on_host(hosts.members_per_host, memory.window_bytes));
  memory.between_hosts = segments.create_between_hosts(
      TwoLevelCollectives::needs_between_hosts(hosts.num_hosts, memory.window_bytes));
}

std::unique_ptr<Collectives> make_stream(Group& group, const OperationContext& context,
                                         const StreamMemory& memory) {
  if (group.topology() != Topology::two_level) {
    return make_flat_stream(group.topology(), context, memory);
  }
  return std::make_unique<TwoLevelCollectives>(
      context, memory.segment, memory.on_host, memory.between_hosts, group.hosts(),
      memory.window_bytes, memory.offset, memory.notification);
}

std::unique_ptr<Collectives> make_flat_stream(Topology topology, const OperationContext& context,
                                              const StreamMemory& memory) {
  if (topology == Topology::readable) {
    return std::make_unique<ReadableCollectives>(context, memory.segment, memory.window_bytes,
                                                 memory.offset);
  }
  return std::make_unique<PutOnlyCollectives>(context, memory.segment, memory.window_bytes,
                                              memory.offset, memory.notification);
}

}  // namespace tnt::comm
