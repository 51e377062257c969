#pragma once

#include "tnt/comm/base/deadline.hpp"

namespace tnt::comm {

/// Makes a call of GPI-2 that posts a request, and makes it again while it returns
/// that time is over (1).
///
/// That only means that another thread of this process has kept the lock of the queue:
/// nothing was posted, and no other rank has to do with it. The lock is held for
/// microseconds, but in a container whose time on the processor is limited, or in a
/// debugger, its holder may be stopped for longer. So a wait ends when `deadline` does.
/// Returns what the last call returned.
template <typename Call>
int post_when_unlocked(const Deadline& deadline, Call&& call) {
  int status = call();
  while (status == 1 && !deadline.is_over()) status = call();
  return status;
}

}  // namespace tnt::comm
