#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string_view>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/tnt_comm.h"

namespace tnt::comm {

/// Status and message of the calling thread's last error. It has its memory from the begin,
/// since an error may be that there is none.
struct LastError {
  tnt_comm_status status = TNT_COMM_OK;
  std::array<char, 4096> text{};

  tnt_comm_status set(tnt_comm_status new_status, const char* new_text) {
    const std::string_view beginning = first_bytes(new_text, text.size() - 1);
    std::memcpy(text.data(), beginning.data(), beginning.size());
    text[beginning.size()] = '\0';
    return status = new_status;
  }
};

inline LastError& last_error() {
  thread_local LastError message;
  return message;
}

/// Runs a function and turns what it throws into a status and a message: no
/// exception crosses the C interface.
template <typename Function>
tnt_comm_status guard(Function&& function) noexcept {
  try {
    function();
    return TNT_COMM_OK;
  } catch (const Error& error) {
    return last_error().set(static_cast<tnt_comm_status>(error.kind()), error.what());
  } catch (const std::exception& error) {
    return last_error().set(TNT_COMM_ERROR, error.what());
  } catch (...) {
    return last_error().set(TNT_COMM_ERROR, "An unknown exception was thrown.");
  }
}

// What C functions are given, checked: a UsageError that names the argument instead
// of a crash.

DType checked_dtype(tnt_comm_dtype dtype, const char* argument);
ReduceOp checked_op(tnt_comm_op op);
CollectiveKind checked_kind(tnt_comm_kind kind);

/// Seconds; 0 is the job's timeout.
double checked_timeout(double timeout_s);

/// A place for a result, or an array that has elements.
void require_pointer(const void* pointer, const char* argument);

/// Bytes of an array, which must be there if it has any.
std::size_t checked_bytes(const void* array, std::uint64_t count, DType dtype,
                          const char* argument);

/// The arrays must not overlap.
void require_apart(const void* in, std::size_t in_bytes, const void* out, std::size_t out_bytes);

/// The group of a handle.
std::shared_ptr<Group> group_of(std::int64_t handle);

/// Calls a function and hands its result to the caller at `out`.
template <typename Value, typename Function>
tnt_comm_status give(Value* out, const char* argument, Function&& function) noexcept {
  return guard([&] {
    require_pointer(out, argument);
    *out = static_cast<Value>(function());
  });
}

}  // namespace tnt::comm
