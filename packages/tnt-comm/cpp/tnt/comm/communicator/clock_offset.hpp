#pragma once

#include <cstdint>
#include <functional>

#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/trace/records.hpp"

namespace tnt::comm {

/// Compares this rank's clock with that of the group's first member.
/// Collective, blocking; some messages.
///
/// In each of several rounds all members exchange the time at which they began
/// the round, and note when they had everything. A message cannot arrive before
/// it was sent, on whichever clock: with the offset d,
///
///     first.begin <= end + d     and     begin + d <= first.end,
///
/// which bounds d from both sides. The result is the middle of the tightest
/// bounds of all rounds.
ClockOffset measure_clock_offset(Group& group, const std::function<std::int64_t()>& now_ns);

}  // namespace tnt::comm
