#include <memory>
#include <utility>

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

tnt_comm_status tnt_reducer_start_into(int64_t reducer, int64_t tensor, const void* data, void* out,
                                       double scale, void (*release)(void* owner), void* owner) {
  return guard([&] {
    std::shared_ptr<void> kept(owner, release);
    reducers().find(reducer)->start_into(static_cast<std::size_t>(tensor), data, out, scale,
                                         std::move(kept));
  });
}

tnt_comm_status tnt_reducer_is_in_place(int64_t reducer, int64_t tensor, int32_t* is_in_place) {
  return guard([&] {
    const bool is = reducers().find(reducer)->is_summed_in_place(static_cast<std::size_t>(tensor));
    *is_in_place = is ? 1 : 0;
  });
}

tnt_comm_status tnt_reducer_finish(int64_t reducer, int64_t tensor, void* out) {
  return guard([&] { reducers().find(reducer)->finish(static_cast<std::size_t>(tensor), out); });
}

tnt_comm_status tnt_reducer_lend(int64_t reducer, int64_t tensor, const void** data, void** lease) {
  return guard([&] {
    *data = nullptr;
    *lease = nullptr;
    auto lent = reducers().find(reducer)->lend(static_cast<std::size_t>(tensor));
    if (!lent) return;
    *data = lent->data();
    *lease = lent.release();
  });
}

void tnt_reducer_return(void* lease) {
  delete static_cast<Lease*>(lease);
}

}  // extern "C"
