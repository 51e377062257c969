#include "tnt/comm/transport/hierarchical/join.hpp"

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_process.hpp"
#include "tnt/comm/transport/rma/rma_transport.hpp"
#include "tnt/comm/transport/shm/shm_transport.hpp"

namespace tnt::comm {
namespace {

void require_consistent(const Environment& environment) {
  if (environment.num_nodes == 1 && environment.local_size != environment.size) {
    throw UsageError(
        text("The environment contradicts itself: TNT_NUM_NODES=1, but TNT_LOCAL_SIZE=",
             environment.local_size, " and TNT_SIZE=", environment.size,
             ". For several hosts set TNT_NUM_NODES and TNT_NODE_RANK."));
  }
  if (environment.num_nodes > 1 && environment.transport == "shm") {
    throw UsageError(
        text("TNT_TRANSPORT='shm' connects the ranks of one host, but the job has"
             " ranks on several (TNT_NUM_NODES=",
             environment.num_nodes, "). Use TNT_TRANSPORT=auto or gpi2."));
  }
  const int first = environment.rank - environment.local_rank;
  if (first < 0 || first + environment.local_size > environment.size) {
    throw UsageError(
        text("The environment contradicts itself: TNT_LOCAL_RANK=", environment.local_rank,
             " of TNT_LOCAL_SIZE=", environment.local_size, " and TNT_RANK=", environment.rank,
             " of TNT_SIZE=", environment.size,
             ". The ranks of a host are consecutive; TNT_LOCAL_RANK counts them from 0."));
  }
}

// Hosts may share /dev/shm, as containers of one machine do.
HostRanks ranks_of_this_host(const Environment& environment) {
  const std::string& job = environment.job_id;
  return {.prefix = environment.num_nodes == 1 ? job : text(job, "-node", environment.node_rank),
          .first_rank = environment.rank - environment.local_rank,
          .count = environment.local_size,
          .job_id = job};
}

std::unique_ptr<ShmTransport> join_host(const Environment& environment, const Deadline& deadline) {
  return std::make_unique<ShmTransport>(ranks_of_this_host(environment), environment.rank, deadline,
                                        environment.stall_report_s);
}

}  // namespace

std::unique_ptr<Transport> join_job(const Environment& environment) {
  require_consistent(environment);
  const Deadline deadline(environment.timeout_s);
  const bool is_one_host = environment.num_nodes == 1;
  if (is_one_host && environment.transport != "gpi2") {
    if (environment.size == 1) return std::make_unique<SoloTransport>();
    return join_host(environment, deadline);
  }
  // First of all, since without it there is nothing to wait for.
  GaspiLibrary library = open_gaspi_library(environment.gpi2_library);
  std::vector<RankAddress> addresses = require_gaspi_environment(environment);
  std::unique_ptr<Transport> host;
  // Shared memory before GPI-2, because it can say which rank of the host is missing.
  if (!is_one_host) host = join_host(environment, deadline);
  auto gaspi = std::make_unique<GaspiProcess>(std::move(library), environment, std::move(addresses),
                                              deadline);
  auto network = std::make_unique<RmaTransport>(std::move(gaspi), environment, deadline);
  if (!host) return network;
  return std::make_unique<ClusterTransport>(std::move(host), std::move(network));
}

}  // namespace tnt::comm
