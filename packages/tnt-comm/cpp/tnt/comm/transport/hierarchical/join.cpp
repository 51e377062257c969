#include "tnt/comm/transport/hierarchical/join.hpp"

#include <functional>
#include <utility>
#include <vector>

#include "tnt/comm/base/start_wait.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_process.hpp"
#include "tnt/comm/transport/rma/network_library.hpp"
#include "tnt/comm/transport/rma/rma_transport.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_device.hpp"
#include "tnt/comm/transport/shm/shm_transport.hpp"

namespace tnt::comm {
namespace {

void require_consistent(const Environment& environment) {
  if (environment.num_nodes == 1 && environment.local_size != environment.size) {
    throw UsageError("The environment contradicts itself: TNT_NUM_NODES=1, but TNT_LOCAL_SIZE=",
                     environment.local_size, " and TNT_SIZE=", environment.size,
                     ". For several hosts set TNT_NUM_NODES and TNT_NODE_RANK.");
  }
  if (environment.num_nodes > 1 && environment.transport == "shm") {
    throw UsageError(
        "TNT_TRANSPORT='shm' connects the ranks of one host, but the job has"
        " ranks on several (TNT_NUM_NODES=",
        environment.num_nodes, "). Use TNT_TRANSPORT=auto, gpi2 or ucx.");
  }
  const int first = environment.rank - environment.local_rank;
  if (first < 0 || first + environment.local_size > environment.size) {
    throw UsageError("The environment contradicts itself: TNT_LOCAL_RANK=", environment.local_rank,
                     " of TNT_LOCAL_SIZE=", environment.local_size,
                     " and TNT_RANK=", environment.rank, " of TNT_SIZE=", environment.size,
                     ". The ranks of a host are consecutive; TNT_LOCAL_RANK counts them from 0.");
  }
}

// Hosts may share /dev/shm, as containers of one machine do.
HostRanks ranks_of_this_host(const Environment& environment) {
  const std::string& job = environment.job_id;
  return {.prefix = environment.num_nodes == 1 ? job : text(job, "-node", environment.node_rank),
          .first_rank = environment.rank - environment.local_rank,
          .count = environment.local_size,
          .job_id = job,
          .sum_tree = text_of_counts(environment.sum_tree)};
}

std::unique_ptr<ShmTransport> join_host(const Environment& environment, const Deadline& deadline) {
  return std::make_unique<ShmTransport>(ranks_of_this_host(environment), environment.rank, deadline,
                                        environment.stall_report_s, environment.start_report_s);
}

BootstrapPlace bootstrap_place(const Environment& environment) {
  const auto require = [](const char* name, bool is_set, const char* what) {
    if (is_set) return;
    throw UsageError("Environment variable ", name, " must be set for UCX: ", what);
  };
  require("TNT_RENDEZVOUS", environment.rendezvous.has_value(),
          "host:port, where rank 0 listens for the others. All ranks need the same value.");
  require("TNT_JOB_SECRET", !environment.job_secret.empty(),
          "16 or more random characters, the same for all ranks and known to nobody else.");
  return {.rank = environment.rank,
          .size = environment.size,
          .rendezvous = *environment.rendezvous,
          .has_other_hosts = environment.num_nodes > 1,
          .interface = environment.interface,
          .job_id = environment.job_id,
          .secret = environment.job_secret,
          .stall_report_s = environment.start_report_s};
}

/// Starts the network, after everything about it is known that can be known without the others.
using StartNetwork = std::function<std::unique_ptr<RmaDevice>(const Deadline&)>;

StartNetwork prepare_gpi2(GaspiLibrary library, const Environment& environment) {
  std::vector<RankAddress> addresses = require_gaspi_environment(environment);
  return [=](const Deadline& deadline) {
    return std::make_unique<GaspiProcess>(library, environment, addresses, deadline);
  };
}

StartNetwork prepare_ucx(UcxLibrary library, const Environment& environment) {
  const BootstrapPlace place = bootstrap_place(environment);
  return [=, rdma = environment.ucx_rdma](const Deadline& deadline) {
    require_descriptors("UCX", place.rank, place.size);
    return std::make_unique<UcxDevice>(library, place, rdma, deadline);
  };
}

// GPI-2 where it is found, else UCX. One that is named must be there.
StartNetwork prepare_any(const Environment& environment) {
  std::string why_no_gpi2;
  try {
    return prepare_gpi2(open_gaspi_library(environment.gpi2_library), environment);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    if (!environment.gpi2_library.empty()) throw;
    why_no_gpi2 = error.what();
  }
  if (auto library = find_ucx_library(environment.ucx_library)) {
    return prepare_ucx(std::move(*library), environment);
  }
  throw Error(ErrorKind::comm,
              "The ranks are on several hosts, and neither UCX nor GPI-2 was found to connect"
              " them. The easiest remedy is `pip install \"tnt-comm[ucx]\"` on all hosts. "
              "(UCX: set TNT_UCX_LIBRARY if you have one elsewhere. GPI-2: ",
              why_no_gpi2, ")");
}

StartNetwork prepare_network(const Environment& environment) {
  if (environment.transport == "ucx") {
    return prepare_ucx(open_ucx_library(environment.ucx_library), environment);
  }
  if (environment.transport == "gpi2") {
    return prepare_gpi2(open_gaspi_library(environment.gpi2_library), environment);
  }
  return prepare_any(environment);
}

}  // namespace

std::unique_ptr<Transport> join_job(const Environment& given) {
  Environment environment = given;
  environment.start_report_s = start_report_s(given.start_report_s);
  require_consistent(environment);
  const Deadline deadline(start_timeout_s(environment.timeout_s));
  const bool is_one_host = environment.num_nodes == 1;
  const bool is_network_wanted = environment.transport == "gpi2" || environment.transport == "ucx";
  if (is_one_host && !is_network_wanted) {
    if (environment.size == 1) return std::make_unique<SoloTransport>();
    return join_host(environment, deadline);
  }
  // First of all, since without it there is nothing to wait for.
  const StartNetwork start_network = prepare_network(environment);
  // Shared memory before the network, because it can say which rank of the host is missing.
  std::unique_ptr<Transport> host;
  if (!is_one_host) host = join_host(environment, deadline);
  auto network = std::make_unique<RmaTransport>(start_network(deadline), environment, deadline);
  if (!host) return network;
  return std::make_unique<ClusterTransport>(std::move(host), std::move(network));
}

}  // namespace tnt::comm
