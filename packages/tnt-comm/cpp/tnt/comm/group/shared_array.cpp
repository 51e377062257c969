#include "tnt/comm/group/shared_array.hpp"

#include "tnt/comm/base/forked_child.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/group/creation.hpp"
#include "tnt/comm/transport/heap_segment.hpp"

namespace tnt::comm {

SharedArray::SharedArray(Group& group, std::size_t num_bytes) {
  group.health()->require_intact();
  const bool is_shared = group.size() > 1 && group.topology() == Topology::readable;
  create_together(group, text("an array of ", num_bytes, " bytes in shared memory"), "",
                  [&](SegmentSet& segments) {
                    if (is_shared) {
                      segment_ = segments.create({num_bytes, SharedBlocks::kNumNotifications});
                    } else {
                      segment_ = std::make_shared<HeapSegment>(num_bytes);
                    }
                  });
  if (!is_shared) return;
  blocks_ = group.blocks();
  block_ = blocks_->add(segment_, num_bytes);
}

SharedArray::~SharedArray() {
  if (blocks_ && !is_forked_child()) blocks_->drop(block_);
}

}  // namespace tnt::comm
