#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/host_bucket.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/collective/select.hpp"

namespace tnt::comm {

class Group;
class SegmentSet;

/// Size of the slots through which large messages go.
std::size_t slot_bytes_for(Topology topology);

/// What the members of a stream need of a segment of theirs; slots are of about the given size.
MemoryNeeds stream_needs(Topology topology, const SumTree& tree, std::size_t slot_bytes);

/// The further segments that two levels need. Collective, blocking.
void create_levels(SegmentSet& segments, const HostLayout& hosts, StreamMemory& memory);

/// The collectives of one stream of the group, for how its members reach each other. Without those
/// further segments they have one level only, which is for streams without allreduces.
std::unique_ptr<Collectives> make_stream(const Group& group, const OperationContext& context,
                                         const StreamMemory& memory);

/// Memory and operations for buckets, likewise. Collective, blocking; the specs must be the same on
/// all members.
std::vector<std::shared_ptr<HostBucket>> create_buckets(Group& group, SegmentSet& segments,
                                                        const std::vector<BucketSpec>& specs);

/// The part of such a bucket that this rank sums for its host, of several hosts with branches.
Range chunk_of_host(const Group& group, const BucketSpec& spec);

/// Operations that sum those parts over the hosts, in the partial type: for sums on a host that
/// others form. Likewise collective and blocking.
std::vector<std::shared_ptr<HostBucket>> create_chunk_buckets(Group& group, SegmentSet& segments,
                                                              const std::vector<BucketSpec>& specs);

}  // namespace tnt::comm
