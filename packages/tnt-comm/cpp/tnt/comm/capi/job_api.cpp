#include "tnt/comm/base/build_name.hpp"
#include "tnt/comm/capi/arguments.hpp"
#include "tnt/comm/capi/guard.hpp"
#include "tnt/comm/communicator/runtime.hpp"

using namespace tnt::comm;  // NOLINT: a file of C functions

namespace {

tnt_comm_status read(int Environment::*variable, int32_t* value, const char* argument) {
  return guard([&] {
    require_pointer(value, argument);
    *value = world_environment().*variable;
  });
}

}  // namespace

extern "C" {

int32_t tnt_comm_abi_version(void) {
  return TNT_COMM_ABI_VERSION;
}

const char* tnt_comm_version(void) {
  return version();
}

const char* tnt_comm_last_error(void) {
  return last_error().text();
}

tnt_comm_status tnt_comm_last_status(void) {
  return last_error().status();
}

tnt_comm_status tnt_comm_init(void) {
  return guard([] { runtime(); });
}

tnt_comm_status tnt_comm_finalize(void) {
  return guard([] { finalize(); });
}

tnt_comm_status tnt_comm_rank(int32_t* rank) {
  return read(&Environment::rank, rank, "rank");
}

tnt_comm_status tnt_comm_size(int32_t* size) {
  return read(&Environment::size, size, "size");
}

tnt_comm_status tnt_comm_local_rank(int32_t* local_rank) {
  return read(&Environment::local_rank, local_rank, "local_rank");
}

tnt_comm_status tnt_comm_local_size(int32_t* local_size) {
  return read(&Environment::local_size, local_size, "local_size");
}

}  // extern "C"
