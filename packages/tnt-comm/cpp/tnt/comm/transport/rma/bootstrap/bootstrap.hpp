#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/rma/sockets.hpp"

namespace tnt::comm {

/// Where the ranks of a job meet, and which job it is.
struct BootstrapPlace {
  int rank = 0;
  int size = 1;
  HostAndPort rendezvous;  ///< where rank 0 listens, as all ranks reach it
  bool has_other_hosts = false;
  std::string interface;  ///< of this rank (see find_interface()); empty: that of the route
  std::string job_id;
  std::string secret;  ///< of the job; whoever does not know it is no rank of it
  double stall_report_s = 5;
};

/// What all ranks of a job tell each other before there is a network between them: rank 0 listens
/// on one port, all others connect to it. No shared file system, MPI or remote shell is needed.
///
/// Both ends of a connection prove that they know the job's secret, by the HMAC of numbers that the
/// other one has drawn, before either believes anything; whatever is sent later is signed with a
/// key of the connection. Connections without a proof are logged and closed, and delay nobody: rank
/// 0 serves all of them at the same time. What is sent is not encrypted.
///
/// Rank 0 sends n messages of n records: some seconds for a thousand ranks.
///
/// Threads: one at a time.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  /// The records of all ranks by rank. Collective, blocking.
  /// A timeout that names who has not come; PeerLostError if one has come and is gone.
  virtual std::vector<std::string> exchange(const std::string& own_record) = 0;

  /// Returns when all ranks have called it. Collective, blocking; errors as exchange().
  void barrier() { exchange({}); }

  /// Through which this rank reaches the others.
  virtual const Interface& interface() const = 0;
};

/// Rank 0 listens from now on, the others are connected. Blocking.
/// CommError; a timeout if rank 0 cannot be reached.
std::unique_ptr<Bootstrap> start_bootstrap(BootstrapPlace place, const Deadline& deadline);

/// The end of rank 0, to which all others connect.
std::unique_ptr<Bootstrap> listen_as_hub(BootstrapPlace place, const Deadline& deadline);

}  // namespace tnt::comm
