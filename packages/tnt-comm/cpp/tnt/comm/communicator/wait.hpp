#pragma once

#include <cstdint>

#include "tnt/comm/base/interrupt.hpp"
#include "tnt/comm/collective/collective_operation.hpp"

namespace tnt::comm {

class Group;

/// Waits until the group's operation has completed `count` times. Throws its error;
/// breaks the group if `timeout_s` passes or the check throws (that of the thread, if
/// it is empty). On return or
/// throw nothing touches the operation's memory any more, unless it was
/// completed only for an earlier count.
void wait_for(Group& group, CollectiveOperation& operation, std::uint32_t count, double timeout_s,
              const InterruptCheck& check_interrupt);

}  // namespace tnt::comm
