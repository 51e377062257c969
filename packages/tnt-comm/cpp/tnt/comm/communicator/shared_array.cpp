#include "tnt/comm/communicator/shared_array.hpp"

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/communicator/creation.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"

namespace tnt::comm {

SharedArray::SharedArray(Group& group, std::size_t num_bytes) {
  group.abort_state()->require_intact();
  const bool is_shared = group.size() > 1 && group.topology() == Topology::readable;
  create_together(group, text("an array of ", num_bytes, " bytes in shared memory"), "",
                  [&](SegmentSet& segments) {
                    if (is_shared) {
                      segment_ = segments.create({num_bytes, SharedRegions::kNumNotifications});
                    } else {
                      segment_ = std::make_shared<HeapSegment>(num_bytes);
                    }
                  });
  if (!is_shared) return;
  regions_ = group.regions();
  block_ = regions_->add(segment_, num_bytes);
}

SharedArray::~SharedArray() {
  if (regions_ && !is_forked_child()) regions_->drop(block_);
}

}  // namespace tnt::comm
