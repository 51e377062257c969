#pragma once

#include <memory>

#include "tnt/comm/transport/rma/gpi2/gpi2_segment.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Creates a segment with the other members. Collective and blocking.
///
/// Each member says what it is about to create and waits for the others, so
/// that nobody allocates alone; then allocates its part, makes it known to the
/// others and tells them that it is there.
///
/// PeerLostError, timeout, a mismatch of what the members ask for, or a
/// CommError: no memory, no free segment id, too many notifications.
std::unique_ptr<Segment> create_gpi2_segment(const std::shared_ptr<Gpi2Core>& core,
                                             const SegmentRequest& request,
                                             const Deadline& deadline);

}  // namespace tnt::comm
