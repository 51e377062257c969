#pragma once

#include <memory>
#include <vector>

#include "tnt/comm/collective/bucket_operation.hpp"

namespace tnt::comm {

class Group;
class SegmentSet;

/// Memory and operations for buckets, for how the group's members reach each
/// other. Collective, blocking; the specs must be the same on all members.
std::vector<std::shared_ptr<BucketOperation>> create_buckets(Group& group, SegmentSet& segments,
                                                             const std::vector<BucketSpec>& specs);

}  // namespace tnt::comm
