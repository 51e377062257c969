#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/base/dtype.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/bucket_operation.hpp"

namespace tnt::comm {

class Group;
class SegmentSet;

/// A bucket that is to be summed over a group in every step.
struct BucketSpec {
  DType dtype = DType::float32;
  std::size_t count = 0;     ///< elements
  std::string name;          ///< for messages
  std::vector<Range> large;  ///< elements of the tensors that may be placed, ascending
};

/// Memory and operations for buckets, for how the group's members reach each
/// other. Collective, blocking; the specs must be the same on all members.
std::vector<std::shared_ptr<BucketOperation>> create_buckets(Group& group, SegmentSet& segments,
                                                             const std::vector<BucketSpec>& specs);

}  // namespace tnt::comm
