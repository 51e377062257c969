#pragma once

#include <sys/resource.h>

#include <string>

namespace tnt::comm {

/// For messages: what a limit of this process is, and that it may have to be
/// raised. `resource` as for getrlimit().
std::string advice_for_limit(__rlimit_resource_t resource, const char* what);

}  // namespace tnt::comm
