#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// The ranks of several hosts: those of one host share memory, and a network connects all of them.
///
/// A segment of members that are on one host is in shared memory, any other one
/// is the network's. Likewise a rank of this host is known by what the kernel
/// says about its process, any other one by what the network hears.
class ClusterTransport final : public Transport {
 public:
  /// `host` connects the ranks of this host, `network` all of them; both do so already.
  ClusterTransport(std::unique_ptr<Transport> host, std::unique_ptr<Transport> network)
      : host_(std::move(host)), network_(std::move(network)) {}

  int rank() const override { return network_->rank(); }
  int size() const override { return network_->size(); }
  int node_of(int rank) const override { return network_->node_of(rank); }
  /// Of a segment between hosts.
  Capabilities capabilities() const override { return network_->capabilities(); }
  bool is_readable_among(const std::vector<int>& members) const override {
    return std::all_of(members.begin(), members.end(),
                       [this](int member) { return is_on_this_host(member); });
  }
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request,
                                          const Deadline& deadline) override {
    return is_readable_among(request.members) ? host_->create_segment(request, deadline)
                                              : network_->create_segment(request, deadline);
  }
  /// That of the shared memory, which ranks of this host ring.
  Doorbell& doorbell() override { return host_->doorbell(); }
  PeerStatus status_of(int rank) const override {
    return is_on_this_host(rank) ? host_->status_of(rank) : network_->status_of(rank);
  }
  void beat() override {
    host_->beat();
    network_->beat();
  }
  void leave(PeerState state, const std::string& reason) override {
    // The network first: it returns when all have what this rank sent them, and
    // ranks of this host would otherwise see it gone before that.
    network_->leave(state, reason);
    host_->leave(state, reason);
  }

 private:
  bool is_on_this_host(int rank) const { return node_of(rank) == node_of(this->rank()); }

  std::unique_ptr<Transport> host_;
  std::unique_ptr<Transport> network_;
};

/// Joins the job that the environment describes. Collective among all of its ranks, blocking.
///
/// | ranks | TNT_TRANSPORT | transport |
/// |---|---|---|
/// | one | auto, shm | none |
/// | several on one host | auto, shm | shared memory |
/// | any number on one host | gpi2, ucx | GPI-2 or UCX alone |
/// | on several hosts | auto, gpi2, ucx | shared memory on each host, GPI-2 or UCX between them |
///
/// `auto` takes GPI-2 where it is found, else UCX.
std::unique_ptr<Transport> join_job(const Environment& environment);

}  // namespace tnt::comm
