#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/collective/shared_regions.hpp"
#include "tnt/comm/communicator/group.hpp"

namespace tnt::comm {

/// Memory for an array that all members of a group can reach, so that
/// allreduces of it need no copies. The members may destroy theirs in any
/// order and at any time when no collective uses it, also after the group.
///
/// Where the transport cannot reach other ranks' memory, it is plain memory.
class TNT_COMM_EXPORT SharedArray {
 public:
  /// Collective among the group, blocking. Mismatch error on all members if
  /// their sizes differ.
  SharedArray(Group& group, std::size_t num_bytes);
  ~SharedArray();
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;

  /// 64-byte aligned.
  std::byte* data() const { return segment_->local(); }

 private:
  std::shared_ptr<Segment> segment_;
  std::shared_ptr<SharedRegions> regions_;  // null for plain memory
  std::uint64_t block_ = 0;
};

}  // namespace tnt::comm
