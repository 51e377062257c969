#pragma once

#include <vector>

#include "tnt/comm/collective/abort_state.hpp"
#include "tnt/comm/collective/descriptor.hpp"

namespace tnt::comm {

/// The error that every member of a group throws when their calls differ: the
/// same text on all of them. `calls` holds what each member calls.
Error mismatch_error(const AbortState& abort_state, const std::vector<MadeCall>& calls);

}  // namespace tnt::comm
