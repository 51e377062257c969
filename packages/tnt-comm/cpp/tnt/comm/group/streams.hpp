#pragma once

#include <cstddef>
#include <memory>

#include "tnt/comm/algorithm/collectives.hpp"
#include "tnt/comm/algorithm/select.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

class Group;

/// What the members of a stream need of a segment of theirs; windows are of
/// about the given size.
MemoryNeeds stream_needs(Topology topology, int num_members, std::size_t window_bytes);

/// The collectives of one stream of the group, for how its members reach each
/// other. Their memory begins at the offset and the notification of the
/// segment. Two levels need further segments: collective and blocking then.
std::unique_ptr<Collectives> make_stream(Group& group, const OperationContext& context,
                                         std::shared_ptr<Segment> segment,
                                         std::size_t window_bytes, std::size_t offset,
                                         NotificationId notification);

}  // namespace tnt::comm
