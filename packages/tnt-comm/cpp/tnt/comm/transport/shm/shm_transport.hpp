#pragma once

#include <memory>
#include <string>

#include "tnt/comm/transport/shm/control_segment.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// The ranks of one host, through POSIX shared memory.
class ShmTransport final : public Transport {
 public:
  /// Collective among all ranks of the host, blocking.
  ShmTransport(HostRanks host, int rank, const Deadline& deadline, double stall_report_s);

  int rank() const override { return rank_; }
  int size() const override { return host_.count; }
  int node_of(int) const override { return 0; }
  Capabilities capabilities() const override { return {.is_peer_memory_readable = true}; }
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request,
                                          const Deadline& deadline) override;
  Doorbell& doorbell() override { return doorbell_; }
  PeerStatus status_of(int rank) const override { return control_->status_of(rank); }
  void beat() override { control_->beat(); }
  void leave(PeerState state, const std::string& reason) override {
    control_->leave(state, reason);
  }

 private:
  HostRanks host_;
  int rank_;
  double stall_report_s_;
  std::shared_ptr<ControlSegment> control_;  // shared with segments, which may live longer
  FutexDoorbell doorbell_;
};

}  // namespace tnt::comm
