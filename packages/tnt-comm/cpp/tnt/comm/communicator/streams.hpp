#pragma once

#include <cstddef>
#include <memory>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

class Group;
class SegmentSet;

/// Size of the slots through which large messages go.
std::size_t slot_bytes_for(Topology topology);

/// What the members of a stream need of a segment of theirs; slots are of
/// about the given size.
MemoryNeeds stream_needs(Topology topology, int num_members, std::size_t slot_bytes);

/// The further segments that two levels need. Collective, blocking.
void create_levels(SegmentSet& segments, const HostLayout& hosts, StreamMemory& memory);

/// The collectives of one stream of the group, for how its members reach each
/// other.
std::unique_ptr<Collectives> make_stream(Group& group, const OperationContext& context,
                                         const StreamMemory& memory);

/// The same with one level only, for streams without allreduces.
std::unique_ptr<Collectives> make_flat_stream(Topology topology, const OperationContext& context,
                                              const StreamMemory& memory);

}  // namespace tnt::comm
