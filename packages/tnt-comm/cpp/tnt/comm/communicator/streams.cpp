#include "tnt/comm/communicator/streams.hpp"

#include "tnt/comm/collective/readable_collectives.hpp"
#include "tnt/comm/collective/rma/rma_collectives.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/segment_set.hpp"

namespace tnt::comm {

// Several slots of this size per rank. Large enough that the rounds of a step
// are cheap next to its copies, small enough for what a rank copies in of its
// array to be still in the second-level cache when it reduces. Where messages
// are sent, copies cost little next to them, and shorter blocks overlap better.
std::size_t slot_bytes_for(Topology topology) {
  return topology == Topology::readable ? 512 * 1024 : 256 * 1024;
}

MemoryNeeds stream_needs(Topology topology, int num_members, std::size_t slot_bytes) {
  return topology == Topology::readable
             ? MemoryNeeds{ReadableCollectives::layout_with(slot_bytes).num_bytes(), 0}
             : RmaCollectives::memory_needs(num_members, slot_bytes);
}

void create_levels(SegmentSet& segments, const HostLayout& hosts, StreamMemory& memory) {
  memory.on_host = segments.create_on_host(RmaCollectives::needs_on_host(hosts, memory.slot_bytes));
  memory.between_hosts =
      segments.create_between_hosts(RmaCollectives::needs_between_hosts(hosts, memory.slot_bytes));
}

std::unique_ptr<Collectives> make_stream(Group& group, const OperationContext& context,
                                         const StreamMemory& memory) {
  if (group.topology() != Topology::hierarchical) {
    return make_flat_stream(group.topology(), context, memory);
  }
  return std::make_unique<RmaCollectives>(context, memory, group.hosts());
}

std::unique_ptr<Collectives> make_flat_stream(Topology topology, const OperationContext& context,
                                              const StreamMemory& memory) {
  if (topology == Topology::readable) return std::make_unique<ReadableCollectives>(context, memory);
  return std::make_unique<RmaCollectives>(context, memory);
}

}  // namespace tnt::comm
