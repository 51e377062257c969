#include "tnt/comm/base/limit.hpp"

#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

std::string advice_for_limit(__rlimit_resource_t resource, const char* what) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) {
    return text("This process has no limit of ", what, ", so that of the host or container is met");
  }
  return text("The limit of ", what, " is ", limit.rlim_cur, ": raise it");
}

}  // namespace tnt::comm
