#include "tnt/comm/group/streams.hpp"

#include <utility>

#include "tnt/comm/algorithm/network/put_only_collectives.hpp"
#include "tnt/comm/algorithm/readable_collectives.hpp"
#include "tnt/comm/group/group.hpp"

namespace tnt::comm {

MemoryNeeds stream_needs(Topology topology, int num_members, std::size_t window_bytes) {
  return topology == Topology::readable
             ? ReadableCollectives::memory_needs(window_bytes)
             : PutOnlyCollectives::memory_needs(num_members, window_bytes);
}

std::unique_ptr<Collectives> make_stream(Group& group, const OperationContext& context,
                                         std::shared_ptr<Segment> segment, std::size_t window_bytes,
                                         std::size_t offset, NotificationId notification) {
  if (group.topology() == Topology::readable) {
    return std::make_unique<ReadableCollectives>(context, std::move(segment), window_bytes, offset);
  }
  return std::make_unique<PutOnlyCollectives>(context, std::move(segment), window_bytes, offset,
                                              notification);
}

}  // namespace tnt::comm
