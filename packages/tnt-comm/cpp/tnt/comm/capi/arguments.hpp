#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/tnt_comm.h"

namespace tnt::comm {

/// Objects by integer handle, for callers that cannot hold C++ pointers. A looked-up object stays
/// alive while it is used, even if it is closed meanwhile. Handles are never reused.
template <typename Object>
class Registry {
 public:
  explicit Registry(const char* kind) : kind_(kind) {}

  std::int64_t add(std::shared_ptr<Object> object) {
    const std::unique_lock lock(mutex_);
    objects_.emplace(++last_handle_, std::move(object));
    return last_handle_;
  }

  std::shared_ptr<Object> find(std::int64_t handle) const {
    refuse_forked_child();
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found != objects_.end()) return found->second;
    throw UsageError("No ", kind_, " has the handle ", handle,
                     ": it was closed, or never created in this process.");
  }

  /// Closes the object and forgets it. Nothing in a forked child, to which it does not belong.
  void close(std::int64_t handle) {
    if (is_forked_child()) return;
    find(handle)->close();
    remove(handle);
  }

  /// Forgets the object, which goes when nobody uses it any more. Nothing in a forked child.
  void remove(std::int64_t handle) {
    if (is_forked_child()) return;
    const std::shared_ptr<Object> object = find(handle);  // destroyed without the lock
    const std::unique_lock lock(mutex_);
    objects_.erase(handle);
  }

 private:
  const char* kind_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::int64_t, std::shared_ptr<Object>> objects_;
  std::int64_t last_handle_ = 0;
};

/// The process' registry of a class. Never destroyed: other threads may be inside a call when the
/// process ends.
template <typename Object>
Registry<Object>& registry_of(const char* kind) {
  static auto* registry = new Registry<Object>(kind);
  return *registry;
}

class GradientReducer;
class Gatherer;

/// The process' registries, for the C interface and the bindings: a handle from Python works in C.
TNT_COMM_EXPORT Registry<GradientReducer>& reducers();
TNT_COMM_EXPORT Registry<Gatherer>& gatherers();

Registry<Group>& groups();

/// Status and message of the calling thread's last error. It has its memory from the begin,
/// since an error may be that there is none.
struct LastError {
  tnt_comm_status status = TNT_COMM_OK;
  FixedText<4096> text{};

  tnt_comm_status set(tnt_comm_status new_status, const char* new_text) {
    text.set(new_text);
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

// What C functions are given, checked: a UsageError that names the argument instead of a crash.

// Numbers from C may be any.
template <typename Enum>
Enum checked(std::int64_t number, std::size_t count, const char* argument, const char* kind) {
  if (number >= 0 && number < static_cast<std::int64_t>(count)) return static_cast<Enum>(number);
  throw UsageError("`", argument, "` must be a ", kind, " (", count - 1, "). Received: ", number,
                   ".");
}

inline DType checked_dtype(tnt_comm_dtype dtype, const char* argument) {
  return checked<DType>(dtype, kNumDTypes, argument,
                        "tnt_comm_dtype, TNT_COMM_FLOAT16 (0) to TNT_COMM_BOOL");
}

inline ReduceOp checked_op(tnt_comm_op op) {
  return checked<ReduceOp>(op, kNumReduceOps, "op", "tnt_comm_op, TNT_COMM_SUM (0) to TNT_COMM_OR");
}

inline CollectiveKind checked_kind(tnt_comm_kind kind) {
  return checked<CollectiveKind>(kind, kNumCallableKinds, "kind",
                                 "tnt_comm_kind, TNT_COMM_BARRIER (0) to TNT_COMM_SCATTER");
}

/// Which GPU; -1 is none.
inline int checked_device(std::int32_t device) {
  if (device >= -1) return device;
  throw UsageError("`device` must be -1 for none, or >= 0. Received: device=", device, ".");
}

/// Seconds; 0 is the job's timeout.
inline double checked_timeout(double timeout_s) {
  if (timeout_s >= 0) return timeout_s;
  throw UsageError("`timeout_s` must be a number of seconds, or 0 for the job's timeout. ",
                   "Received: timeout_s=", timeout_s, ".");
}

/// A place for a result, or an array that has elements.
inline void require_pointer(const void* pointer, const char* argument) {
  if (pointer == nullptr) throw UsageError("`", argument, "` must not be NULL.");
}

/// Bytes of an array, which must be there if it has any.
inline std::size_t checked_bytes(const void* array, std::uint64_t count, DType dtype,
                                 const char* argument) {
  const std::size_t num_bytes = bytes_in_memory(count, size_of(dtype), text("`", argument, "`"));
  if (num_bytes > 0) require_pointer(array, argument);
  return num_bytes;
}

inline void require_apart(const void* in, std::size_t in_bytes, const void* out,
                          std::size_t out_bytes) {
  const auto in_begin = reinterpret_cast<std::uintptr_t>(in);
  const auto out_begin = reinterpret_cast<std::uintptr_t>(out);
  if (in_bytes == 0 || out_bytes == 0) return;
  if (in_begin >= out_begin + out_bytes || out_begin >= in_begin + in_bytes) return;
  throw UsageError("`out` must not overlap `in`; give it memory of its own.");
}

inline std::shared_ptr<Group> group_of(std::int64_t handle) {
  return handle == TNT_GROUP_WORLD ? Group::world() : groups().find(handle);
}

template <typename Value, typename Function>
tnt_comm_status give(Value* out, const char* argument, Function&& function) noexcept {
  return guard([&] {
    require_pointer(out, argument);
    *out = static_cast<Value>(function());
  });
}

/// What the calling thread says about its calls (see tnt_comm_set_label).
struct ThreadLabel {
  std::string label;
  std::string caller;
};

inline ThreadLabel& thread_label() {
  thread_local ThreadLabel label;
  return label;
}

/// The same for a call; valid until the thread changes it.
inline CallLabel call_label() {
  return {thread_label().label, thread_label().caller};
}

}  // namespace tnt::comm
