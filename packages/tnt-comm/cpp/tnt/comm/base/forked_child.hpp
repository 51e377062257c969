#pragma once

#include "tnt/comm/base/export.hpp"

namespace tnt::comm {

/// From now on this process' children know that they are forks. Idempotent.
void watch_forks();

/// Whether this process is a fork of one that called watch_forks(). It has
/// copies of its parent's objects, and none of its threads; locks may be held
/// for ever. So it must leave them alone.
TNT_COMM_EXPORT bool is_forked_child() noexcept;

/// UsageError in a forked child, with what to do instead.
TNT_COMM_EXPORT void refuse_forked_child();

}  // namespace tnt::comm
