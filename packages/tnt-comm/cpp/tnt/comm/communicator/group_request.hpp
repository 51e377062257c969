#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/collective/creations.hpp"

namespace tnt::comm {

/// UsageError unless the ranks are ascending, unequal, in the job, and the
/// caller is one of them.
void require_valid_ranks(const std::vector<int>& ranks, const Environment& environment);

/// "ranks 0, 2".
std::string describe_ranks(const std::vector<int>& ranks);

/// The same for equal lists.
std::uint64_t fingerprint_of(const std::vector<int>& ranks);

/// Names the group's memory.
std::string group_key(const CreationId& id);

}  // namespace tnt::comm
