#pragma once

#include <vector>

#include "tnt/comm/algorithm/health.hpp"
#include "tnt/comm/algorithm/network/roll_call.hpp"

namespace tnt::comm {

/// Which members hold up an operation whose messages are passed on from rank
/// to rank, given those that this rank waits for itself: those that have not
/// made the call if there are any, else those that do not respond, else the
/// given ones.
std::vector<int> holding_up(const Health& health, const RollCall& roll_call, bool are_all_present,
                            const std::vector<int>& awaited);

}  // namespace tnt::comm
