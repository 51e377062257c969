#pragma once

#include <functional>
#include <vector>

#include "tnt/comm/collective/abort_state.hpp"

namespace tnt::comm {

/// Which members hold up an operation whose messages are passed on from rank
/// to rank, given those that this rank waits for itself (`awaited`) and what is
/// known of who has made the call: those that have not if there are any, else
/// those that do not respond, else the awaited ones.
std::vector<int> holding_up(const AbortState& abort_state, const std::vector<int>& awaited,
                            const std::function<bool(int)>& has_made_call);

}  // namespace tnt::comm
