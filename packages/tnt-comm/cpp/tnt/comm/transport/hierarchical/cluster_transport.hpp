#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/transport/shm/shm_transport.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// The ranks of several hosts: those of one host share memory, and a network
/// transport connects all of them.
///
/// A segment of members that are on one host is in shared memory, any other one
/// is the network's. Likewise a rank of this host is known by what the kernel
/// says about its process, any other one by what the network hears.
class ClusterTransport final : public Transport {
 public:
  /// `host` connects the ranks of this host, `network` all of them; both do so
  /// already.
  ClusterTransport(std::unique_ptr<ShmTransport> host, std::unique_ptr<Transport> network);

  int rank() const override { return network_->rank(); }
  int size() const override { return network_->size(); }
  int node_of(int rank) const override { return network_->node_of(rank); }
  /// Of a segment between hosts.
  Capabilities capabilities() const override { return network_->capabilities(); }
  bool is_readable_among(const std::vector<int>& members) const override;
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request,
                                          const Deadline& deadline) override;
  /// That of the shared memory, which ranks of this host ring.
  Doorbell& doorbell() override { return host_->doorbell(); }
  PeerStatus status_of(int rank) const override;
  void beat() override;
  void leave(PeerState state, const std::string& reason) override;

 private:
  bool is_on_this_host(int rank) const { return node_of(rank) == node_of(this->rank()); }

  std::unique_ptr<ShmTransport> host_;
  std::unique_ptr<Transport> network_;
};

}  // namespace tnt::comm
