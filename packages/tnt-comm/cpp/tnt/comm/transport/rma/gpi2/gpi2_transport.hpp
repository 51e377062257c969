#pragma once

#include <memory>
#include <string>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/ended_ranks.hpp"
#include "tnt/comm/transport/rma/gpi2/gpi2_core.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// All ranks of a job, through a GASPI library.
class Gpi2Transport final : public Transport {
 public:
  /// Collective among all ranks, blocking.
  Gpi2Transport(std::unique_ptr<Gaspi> gaspi, const Environment& environment,
                const Deadline& deadline);

  int rank() const override { return core_->rank(); }
  int size() const override { return core_->size(); }
  int node_of(int rank) const override { return core_->node_of(rank); }
  Capabilities capabilities() const override {
    return {.is_peer_memory_readable = false,
            .is_doorbell_rung_by_peers = false,
            .most_counters = core_->gaspi().num_notifications()};
  }
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request,
                                          const Deadline& deadline) override;
  Doorbell& doorbell() override { return doorbell_; }
  PeerStatus status_of(int rank) const override;
  void beat() override { core_->beat(); }
  void leave(PeerState state, const std::string& reason) override { core_->leave(state, reason); }

 private:
  std::shared_ptr<Gpi2Core> core_;  // shared with segments, which may live longer
  EndedRanks ended_;                // of this host
  DoorbellWords words_;
  FutexDoorbell doorbell_{words_};
};

}  // namespace tnt::comm
