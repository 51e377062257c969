#pragma once

#include <memory>
#include <string>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/ended_ranks.hpp"
#include "tnt/comm/transport/rma/rma_core.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// All ranks of a job, through a network library.
class RmaTransport final : public Transport {
 public:
  /// Collective among all ranks, blocking.
  RmaTransport(std::unique_ptr<RmaDevice> device, const Environment& environment,
               const Deadline& deadline);

  int rank() const override { return core_->rank(); }
  int size() const override { return core_->size(); }
  int node_of(int rank) const override { return core_->node_of(rank); }
  Capabilities capabilities() const override {
    return {.is_peer_memory_readable = false,
            .is_doorbell_rung_by_peers = false,
            .most_counters = core_->device().num_notifications()};
  }
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request,
                                          const Deadline& deadline) override;
  Doorbell& doorbell() override { return doorbell_; }
  PeerStatus status_of(int rank) const override {
    PeerStatus status = core_->peers().status_of(rank);
    if (status.state == PeerState::dead) status.reason = ended_.end_of(rank).value_or("");
    return status;
  }
  void beat() override { core_->beat(); }
  void leave(PeerState state, const std::string& reason) override { core_->leave(state, reason); }

 private:
  std::shared_ptr<RmaCore> core_;  // shared with segments, which may live longer
  EndedRanks ended_;               // of this host
  Doorbell doorbell_;
};

}  // namespace tnt::comm
