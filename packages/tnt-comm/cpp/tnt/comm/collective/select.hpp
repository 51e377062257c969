#pragma once

#include <cstddef>

#include "tnt/comm/collective/abort_state.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"

namespace tnt::comm {

enum class Topology {
  readable,      ///< all can read each other's memory
  put_only,      ///< they can only put into it
  hierarchical,  ///< readable inside each host; hosts put into each other
};

/// What the choice of an algorithm depends on: nothing that differs between
/// ranks, so all choose alike.
struct AllreduceCase {
  std::size_t num_bytes = 0;
  DType dtype = DType::float32;
  Topology topology = Topology::readable;
  int num_members = 1;
  int num_hosts = 1;  ///< only looked at for two levels
};

/// The algorithm for a case: the requested one, or if that is `automatic` what the table below
/// prefers. UsageError if the requested one does not fit, saying why and which do.
///
/// Two levels: the algorithm is for what the hosts exchange.
AllreduceAlgorithm choose_allreduce(const AllreduceCase& wanted, AllreduceAlgorithm requested);

/// The same for a group; its first member logs it (DEBUG), once for each algorithm and size.
AllreduceAlgorithm choose_allreduce(const AllreduceCase& wanted, AllreduceAlgorithm requested,
                                    const AbortState& abort_state);

/// Allreduces up to this many bytes are done by every rank for itself: reading
/// n small inputs costs less than a second round of notifications.
inline std::size_t one_shot_limit_bytes(int num_members) {
  constexpr std::size_t kReadBudget = 128 * 1024;
  return kReadBudget / static_cast<std::size_t>(num_members);
}

struct MessagePattern {
  LevelScheme scheme;
  bool has_many_blocks_under_way = true;
};
MessagePattern pattern_of(AllreduceAlgorithm algorithm);

}  // namespace tnt::comm
