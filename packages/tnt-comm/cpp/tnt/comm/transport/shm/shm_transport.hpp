#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"
#include "tnt/comm/transport/shm/control_segment.hpp"
#include "tnt/comm/transport/shm/shm_segment.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// The ranks of one host, through POSIX shared memory.
class ShmTransport final : public Transport {
 public:
  /// Collective among all ranks of the host, blocking.
  ShmTransport(HostRanks host, int rank, const Deadline& deadline, double stall_report_s)
      : host_(std::move(host)),
        rank_(rank),
        control_(std::make_shared<ControlSegment>(host_, rank, deadline, stall_report_s)) {}

  int rank() const override { return rank_; }
  int size() const override { return host_.count; }
  int node_of(int) const override { return 0; }
  Capabilities capabilities() const override { return {.is_peer_memory_readable = true}; }
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request,
                                          const Deadline& deadline) override {
    if (request.members.size() == 1) return std::make_unique<HeapSegment>(request.num_bytes);
    const auto self = std::find(request.members.begin(), request.members.end(), rank_);
    const int member = static_cast<int>(self - request.members.begin());
    const std::string name = text("/tnt-", host_.prefix, "-", request.key);
    return std::make_unique<ShmSegment>(name, request, member, control_, deadline);
  }
  Doorbell& doorbell() override { return control_->doorbell_of(rank_); }
  PeerStatus status_of(int rank) const override { return control_->status_of(rank); }
  void beat() override { control_->beat(); }
  void leave(PeerState state, const std::string& reason) override {
    control_->leave(state, reason);
  }

 private:
  HostRanks host_;
  int rank_;
  std::shared_ptr<ControlSegment> control_;  // shared with segments, which may live longer
};

}  // namespace tnt::comm
