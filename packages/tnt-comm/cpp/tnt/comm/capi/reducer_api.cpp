#include "tnt/comm/capi/guard.hpp"
#include "tnt/comm/capi/registry.hpp"
#include "tnt/comm/fusion/gradient_reducer.hpp"

using namespace tnt::comm;  // NOLINT: a file of C functions

extern "C" {

tnt_comm_status tnt_reducer_start(int64_t reducer, int64_t tensor, const void* data, double scale) {
  return guard([&] {
    // A negative id becomes a huge one, which is refused like any unknown id.
    reducers().find(reducer)->start(static_cast<std::size_t>(tensor), data, scale);
  });
}

tnt_comm_status tnt_reducer_finish(int64_t reducer, int64_t tensor, void* out) {
  return guard([&] { reducers().find(reducer)->finish(static_cast<std::size_t>(tensor), out); });
}

}  // extern "C"
