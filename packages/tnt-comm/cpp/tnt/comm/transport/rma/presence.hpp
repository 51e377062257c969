#pragma once

#include <string>
#include <vector>

#include "tnt/comm/transport/rma/tcp_socket.hpp"

namespace tnt::comm {

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
