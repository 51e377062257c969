#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {

/// "host:port", or "[address]:port" for IPv6.
struct HostAndPort {
  std::string host;
  int port = 0;
};
std::optional<HostAndPort> parse_host_and_port(const std::string& value);

/// Whether data goes over UCX by RDMA; in the order of the words of TNT_UCX_RDMA.
enum class RdmaUse {
  automatic,  ///< where the hardware has it
  on,         ///< also where UCX has to emulate it
  off,
};

/// What sums the gradients of GPUs; in the order of the words of TNT_GPU_SUMS.
enum class GpuSums {
  automatic,  ///< the GPUs where all reach each other, else the host
  host,       ///< the CPUs of the host
  ipc,        ///< the GPUs of one host, in each other's memory
};

/// Everything this library takes from the environment, written by the
/// launcher. This is the only place that reads it.
///
/// Without TNT_RANK and TNT_SIZE the process is a world of one rank. A
/// variable that is set but malformed is a UsageError naming it. Blanks around a
/// value do not count, nor does the case of words; an integer has digits only.
struct Environment {
  int rank = 0;                    ///< TNT_RANK, 0 <= rank < size
  int size = 1;                    ///< TNT_SIZE, >= 1
  int local_rank = 0;              ///< TNT_LOCAL_RANK, default: rank
  int local_size = 1;              ///< TNT_LOCAL_SIZE, default: size
  int node_rank = 0;               ///< TNT_NODE_RANK, default: 0
  int num_nodes = 1;               ///< TNT_NUM_NODES, default: 1
  std::string job_id;              ///< TNT_JOB_ID, [A-Za-z0-9]{8,32}; names the shared memory
  std::string transport = "auto";  ///< TNT_TRANSPORT: auto, shm, gpi2 or ucx
  double timeout_s = 600.0;        ///< TNT_TIMEOUT_S, > 0: the longest wait for other ranks
  double stall_report_s = 5.0;     ///< TNT_STALL_S, > 0: first report of a wait
  double start_report_s = kStartReportS;  ///< of a wait for ranks to join: TNT_STALL_S if it is set
  std::string allreduce_algorithm = "auto";  ///< TNT_ALLREDUCE_ALGORITHM: a name of the table
  std::vector<int> sum_tree;  ///< TNT_SUM_TREE: {6, 16} of "6x16"; empty: the default order
  LogLevel log_level = LogLevel::warning;  ///< TNT_LOG_LEVEL: DEBUG, INFO, WARNING, ERROR
  std::string gpi2_library;                ///< TNT_GPI2_LIBRARY; empty: looked for
  int gpi2_port = 0;        ///< TNT_GPI2_PORT, first of its ports; 0: GPI-2's own choice
  std::string ucx_library;  ///< TNT_UCX_LIBRARY; empty: looked for
  RdmaUse ucx_rdma = RdmaUse::automatic;  ///< TNT_UCX_RDMA: auto, on or off
  std::string cuda_library;               ///< TNT_CUDA_LIBRARY; empty: that of the system
  GpuSums gpu_sums = GpuSums::automatic;  ///< TNT_GPU_SUMS: auto, host or ipc
  std::optional<HostAndPort> rendezvous;  ///< TNT_RENDEZVOUS, where rank 0 listens
  std::string job_secret;  ///< TNT_JOB_SECRET, by which the ranks of a job know each other
  std::string interface;   ///< TNT_INTERFACE; empty: that of the route to the rendezvous
  std::string timeline;    ///< TNT_TIMELINE: file for a trace of all ranks; "": none

  // What GPI-2 itself reads; looked at here only to refuse contradictions.
  std::optional<int> gaspi_rank;       ///< GASPI_RANK
  std::optional<int> gaspi_num_ranks;  ///< GASPI_NRANKS
  std::optional<int> gaspi_socket;     ///< GASPI_SOCKET, this rank's number among those of its host
  std::string gaspi_machine_file;      ///< GASPI_MFILE; rank 0 reads it
};

/// Numbers as in TNT_SUM_TREE: "6x16"; "unset" if there are none.
std::string text_of_counts(const std::vector<int>& counts);

/// Looks a variable up; empty when it is not set.
using VariableLookup = std::function<std::optional<std::string>(const char*)>;

/// Parses and checks the variables. Pure, given the lookup.
Environment parse_environment(const VariableLookup& lookup);

/// parse_environment() of this process' environment.
Environment read_environment();

}  // namespace tnt::comm
