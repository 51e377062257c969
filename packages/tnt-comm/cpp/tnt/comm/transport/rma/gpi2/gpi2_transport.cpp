#include "tnt/comm/transport/rma/gpi2/gpi2_transport.hpp"

#include <utility>

#include "tnt/comm/transport/local/heap_segment.hpp"
#include "tnt/comm/transport/rma/gpi2/segment_creation.hpp"

namespace tnt::comm {

Gpi2Transport::Gpi2Transport(std::unique_ptr<Gaspi> gaspi, const Environment& environment,
                             const Deadline& deadline)
    : core_(std::make_shared<Gpi2Core>(std::move(gaspi), environment, deadline)),
      ended_(environment.job_id, environment.rank) {}

PeerStatus Gpi2Transport::status_of(int rank) const {
  PeerStatus status = core_->peers().status_of(rank);
  if (status.state == PeerState::dead) status.reason = ended_.end_of(rank).value_or("");
  return status;
}

std::unique_ptr<Segment> Gpi2Transport::create_segment(const SegmentRequest& request,
                                                       const Deadline& deadline) {
  if (request.members.size() == 1) return std::make_unique<HeapSegment>(request.num_bytes);
  return create_gpi2_segment(core_, request, deadline);
}

}  // namespace tnt::comm
