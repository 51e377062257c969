#pragma once

#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"

namespace tnt::comm {

/// UsageError unless the ranks are ascending, unequal, in the job, and the
/// caller is one of them.
void require_valid_ranks(const std::vector<int>& ranks, const Environment& environment);

/// "ranks 0, 2".
std::string describe_ranks(const std::vector<int>& ranks);

/// Names the group's memory: the same on all members, different for every
/// list of ranks and every further group of the same ranks.
std::string group_key(const std::vector<int>& ranks, int num_uses_before);

}  // namespace tnt::comm
