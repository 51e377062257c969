#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/rma/socket_address.hpp"
#include "tnt/comm/transport/rma/tcp_socket.hpp"

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

}  // namespace tnt::comm
