#pragma once

#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/rma/mailbox.hpp"

namespace tnt::comm {

/// Where a rank believes to be in its job, from its environment.
struct RankLocation {
  int size = 0;
  int local_rank = 0;
  int local_size = 0;
  int node_rank = 0;
  int num_nodes = 0;
  std::string build;  ///< of this library and of what it sends with
  std::string job_id;
  std::string host;
  int pid = 0;
};

/// Of this process. `engine`: what it sends with, and its version.
RankLocation location_of(const Environment& environment, const std::string& engine);

ControlMessage hello_of(const RankLocation& location);
RankLocation location_in(const ControlMessage& hello);

/// The node of every rank, if the locations of all ranks (by rank) belong together:
/// one build, one job, nodes from 0 upwards, the ranks of a node consecutive and numbered
/// from 0. Otherwise a UsageError that names ranks and variables, the same on
/// all ranks. Pure.
std::vector<int> nodes_of(const std::vector<RankLocation>& locations);

}  // namespace tnt::comm
