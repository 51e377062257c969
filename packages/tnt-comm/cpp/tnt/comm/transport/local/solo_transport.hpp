#pragma once

#include <unistd.h>

#include "tnt/comm/transport/local/heap_segment.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// The world of one rank: no launcher, no shared memory, no peers.
class SoloTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int node_of(int) const override { return 0; }
  Capabilities capabilities() const override { return {.is_peer_memory_readable = true}; }
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request, const Deadline&) override {
    return std::make_unique<HeapSegment>(request.num_bytes);
  }
  Doorbell& doorbell() override { return doorbell_; }
  PeerStatus status_of(int) const override {
    return {.state = PeerState::running,
            .heartbeat_age_s = 0,
            .reason = {},
            .host = "localhost",
            .pid = ::getpid()};
  }
  void beat() override {}
  void leave(PeerState, const std::string&) override {}

 private:
  DoorbellWords words_;
  FutexDoorbell doorbell_{words_};
};

}  // namespace tnt::comm
