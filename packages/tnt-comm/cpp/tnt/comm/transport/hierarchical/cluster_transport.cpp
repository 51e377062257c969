#include "tnt/comm/transport/hierarchical/cluster_transport.hpp"

#include <algorithm>
#include <utility>

namespace tnt::comm {

ClusterTransport::ClusterTransport(std::unique_ptr<ShmTransport> host,
                                   std::unique_ptr<Transport> network)
    : host_(std::move(host)), network_(std::move(network)) {}

bool ClusterTransport::is_readable_among(const std::vector<int>& members) const {
  return std::all_of(members.begin(), members.end(),
                     [this](int member) { return is_on_this_host(member); });
}

std::unique_ptr<Segment> ClusterTransport::create_segment(const SegmentRequest& request,
                                                          const Deadline& deadline) {
  return is_readable_among(request.members) ? host_->create_segment(request, deadline)
                                            : network_->create_segment(request, deadline);
}

PeerStatus ClusterTransport::status_of(int rank) const {
  return is_on_this_host(rank) ? host_->status_of(rank) : network_->status_of(rank);
}

void ClusterTransport::beat() {
  host_->beat();
  network_->beat();
}

void ClusterTransport::leave(PeerState state, const std::string& reason) {
  // The network first: it returns when all have what this rank sent them, and
  // ranks of this host would otherwise see it gone before that.
  network_->leave(state, reason);
  host_->leave(state, reason);
}

}  // namespace tnt::comm
