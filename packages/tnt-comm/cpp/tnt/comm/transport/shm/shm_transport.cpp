#include "tnt/comm/transport/shm/shm_transport.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/base/text.hpp"
#include "tnt/comm/transport/local/heap_segment.hpp"
#include "tnt/comm/transport/shm/shm_segment.hpp"

namespace tnt::comm {

ShmTransport::ShmTransport(HostRanks host, int rank, const Deadline& deadline,
                           double stall_report_s)
    : host_(std::move(host)),
      rank_(rank),
      stall_report_s_(stall_report_s),
      control_(std::make_shared<ControlSegment>(host_, rank, deadline, stall_report_s)),
      doorbell_(control_->doorbell_of(rank)) {}

std::unique_ptr<Segment> ShmTransport::create_segment(const SegmentRequest& request,
                                                      const Deadline& deadline) {
  if (request.members.size() == 1) return std::make_unique<HeapSegment>(request.num_bytes);
  const auto self = std::find(request.members.begin(), request.members.end(), rank_);
  const int member = static_cast<int>(self - request.members.begin());
  const std::string name = text("/tnt-", host_.prefix, "-", request.key);
  return std::make_unique<ShmSegment>(name, request, member, control_, deadline, stall_report_s_);
}

}  // namespace tnt::comm
