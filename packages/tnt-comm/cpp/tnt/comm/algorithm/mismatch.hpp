#pragma once

#include <vector>

#include "tnt/comm/algorithm/descriptor.hpp"
#include "tnt/comm/algorithm/health.hpp"

namespace tnt::comm {

/// The error that every member of a group throws when their calls differ: the
/// same text on all of them. `calls` holds what each member calls.
Error mismatch_error(const Health& health, const std::vector<MadeCall>& calls);

}  // namespace tnt::comm
