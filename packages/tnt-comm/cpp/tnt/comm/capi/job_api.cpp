#include <span>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/capi/arguments.hpp"
#include "tnt/comm/communicator/runtime.hpp"
#include "tnt/comm/reducer/combine.hpp"

using namespace tnt::comm;  // NOLINT: a file of C functions

namespace {

tnt_comm_status read(int Environment::*variable, int32_t* value, const char* argument) {
  return give(value, argument, [&] { return world_environment().*variable; });
}

// On the row of this thread, if there is a timeline.
void record(EventKind kind, const char* name) noexcept {
  Timeline* timeline = process_timeline();
  if (timeline == nullptr || name == nullptr) return;
  try {
    timeline->record(kind, timeline->row_of_this_thread(), timeline->name(name));
  } catch (...) {
    // No memory for the name: a mark is not worth more than the program.
  }
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
  return last_error().text.bytes.data();
}

tnt_comm_status tnt_comm_last_status(void) {
  return last_error().status;
}

tnt_comm_status tnt_comm_combine(const void* const* arrays, int32_t num_arrays, void* out,
                                 uint64_t count, tnt_comm_dtype dtype, tnt_comm_op op) {
  return guard([&] {
    if (num_arrays < 1) {
      throw UsageError("`num_arrays` must be at least 1. Received: num_arrays=", num_arrays, ".");
    }
    require_pointer(arrays, "arrays");
    const DType checked = checked_dtype(dtype, "dtype");
    checked_bytes(out, count, checked, "out");
    const std::span given(reinterpret_cast<const std::byte* const*>(arrays),
                          static_cast<std::size_t>(num_arrays));
    for (const std::byte* array : given) checked_bytes(array, count, checked, "arrays");
    combine(given, out, static_cast<std::size_t>(count), checked, checked_op(op));
  });
}

tnt_comm_status tnt_comm_init(void) {
  return guard([] { runtime(); });
}

tnt_comm_status tnt_comm_finalize(void) {
  return guard([] { finalize(); });
}

tnt_comm_status tnt_comm_is_initialized(int32_t* is_initialized) {
  return give(is_initialized, "is_initialized", &tnt::comm::is_initialized);
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

tnt_comm_status tnt_comm_set_label(const char* label, const char* caller) {
  return guard([&] {
    thread_label().label = label != nullptr ? label : "";
    thread_label().caller = caller != nullptr ? caller : "";
  });
}

tnt_comm_status tnt_comm_get_counters(tnt_comm_counters* counters) {
  return guard([&] {
    require_pointer(counters, "counters");
    const Counters now = tnt::comm::counters();
    *counters = {now.num_operations, now.num_bytes, now.num_waits, now.communication_s,
                 now.exposed_s};
  });
}

void tnt_timeline_begin(const char* name) {
  record(EventKind::begin, name);
}

void tnt_timeline_end(const char* name) {
  record(EventKind::end, name);
}

void tnt_timeline_instant(const char* name) {
  record(EventKind::instant, name);
}

}  // extern "C"
