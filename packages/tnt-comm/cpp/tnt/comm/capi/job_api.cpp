#include <cstring>

#include "tnt/comm/capi/guard.hpp"
#include "tnt/comm/group/group.hpp"
#include "tnt/comm/group/runtime.hpp"

using namespace tnt::comm;  // NOLINT: a file of C functions

extern "C" {

int32_t tnt_comm_abi_version(void) {
  return TNT_COMM_ABI_VERSION;
}

const char* tnt_comm_last_error(void) {
  return last_error().text();
}

tnt_comm_status tnt_comm_init(void) {
  return guard([] { runtime(); });
}

tnt_comm_status tnt_comm_finalize(void) {
  return guard([] { finalize(); });
}

tnt_comm_status tnt_comm_rank(int32_t* rank) {
  return guard([&] { *rank = world_environment().rank; });
}

tnt_comm_status tnt_comm_size(int32_t* size) {
  return guard([&] { *size = world_environment().size; });
}

tnt_comm_status tnt_comm_barrier(void) {
  return guard([] { Group::world()->start_barrier(Group::Driver::caller)->wait(0); });
}

tnt_comm_status tnt_comm_allreduce(const void* in, void* out, uint64_t count, const char* dtype,
                                   const char* op) {
  return guard([&] {
    const auto ticket =
        Group::world()->allreduce_now(in, out, count, parse_dtype(dtype), parse_reduce_op(op));
    if (ticket) ticket->wait(0);
  });
}

tnt_comm_status tnt_comm_broadcast(void* data, uint64_t count, const char* dtype, int32_t root) {
  return guard([&] {
    Group::world()
        ->start_broadcast(data, data, count, parse_dtype(dtype), root, Group::Driver::caller)
        ->wait(0);
  });
}

}  // extern "C"
