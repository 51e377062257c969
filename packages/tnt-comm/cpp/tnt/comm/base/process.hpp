#pragma once

#include <sys/resource.h>

#include <string>

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

/// For messages: what a limit of this process is, and that it may have to be
/// raised. `resource` as for getrlimit().
std::string advice_for_limit(__rlimit_resource_t resource, const char* what);

/// Version of this library, such as "1.2.0".
const char* version();

/// Which build of this library this is, such as "tnt-comm 1.2.0, little-endian". Ranks
/// tell each other before anything else: what they send later is laid out as in one
/// build.
std::string build_name();

}  // namespace tnt::comm
