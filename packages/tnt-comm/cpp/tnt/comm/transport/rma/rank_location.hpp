#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/rma/mailbox.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/rma/sockets.hpp"

namespace tnt::comm {

/// Begins a connection to a port on which nobody listens: a host that is there
/// refuses it at once. On one where a process listens the answer would fail to come
/// as soon as that process is stopped and enough connections wait for it.
class TcpHostProbe final : public HostProbe {
 public:
  TcpHostProbe(std::string host, const SocketAddress& address)
      : host_(std::move(host)), address_(address) {}

  std::string host() const override { return host_; }
  void ask() override;
  Answer answer() override;

 private:
  std::string host_;
  SocketAddress address_;
  TcpSocket connection_;
  Answer answer_ = Answer::none;
};

/// Bound to a port of this host, on all addresses of IPv4. CommError if somebody else has it.
TcpSocket bound_to_port(int port);

/// Where a rank is.
struct RankAddress {
  std::string host;
  int local_rank = 0;  ///< among the ranks of the same host, which all have ports of their own
};

/// Shows others that this rank has come to join the job, while the network library, which
/// may tell nobody who is missing, is started: a port on which the rank listens meanwhile. The
/// kernel answers on it, also for a process that is stopped; nothing is ever accepted or read.
class Presence {
 public:
  /// CommError if the port cannot be had.
  explicit Presence(int port);

 private:
  TcpSocket socket_;
};

/// Which of these ranks (indices of `addresses`) do not answer on the port
/// `first_port` + number of the rank on its host. Takes up to a second for every 64
/// ranks, and the time to look up their hosts' names.
std::vector<int> absent_ranks(const std::vector<RankAddress>& addresses, int first_port);

/// "ranks 2 (host b), 5 (host c)"; the first ten.
std::string names_of(const std::vector<int>& ranks, const std::vector<RankAddress>& addresses);

/// Where a rank believes to be in its job, from its environment.
struct RankLocation {
  int size = 0;
  int local_rank = 0;
  int local_size = 0;
  int node_rank = 0;
  int num_nodes = 0;
  std::string build;  ///< of this library and of what it sends with
  std::string job_id;
  std::string sum_tree;  ///< TNT_SUM_TREE
  std::string host;
  int pid = 0;
};

/// Of this process. `engine`: what it sends with, and its version.
RankLocation location_of(const Environment& environment, const std::string& engine);

ControlMessage hello_of(const RankLocation& location);
RankLocation location_in(const ControlMessage& hello);

/// The node of every rank, if the locations of all ranks (by rank) belong together: one build, one
/// job, nodes from 0 upwards, the ranks of a node consecutive and numbered from 0. Otherwise a
/// UsageError that names ranks and variables, the same on all ranks. Pure.
std::vector<int> nodes_of(const std::vector<RankLocation>& locations);

}  // namespace tnt::comm
