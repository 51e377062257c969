#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/error.hpp"
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
    throw UsageError(text("No ", kind_, " has the handle ", handle,
                          ": it was closed, or never created in this process."));
  }

  /// Closes the object and forgets it. Nothing in a forked child, to which it does not belong.
  void close(std::int64_t handle) {
    if (is_forked_child()) return;
    find(handle)->close();
    remove(handle);
  }

  /// Forgets the object, which is destroyed when nobody uses it any more. Nothing in a
  /// forked child.
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

class Group;
class GradientReducer;
class Gatherer;

/// The process' registries; used by the C interface and by the bindings, so
/// that a handle from Python works in C.
TNT_COMM_EXPORT Registry<GradientReducer>& reducers();
TNT_COMM_EXPORT Registry<Gatherer>& gatherers();

Registry<Group>& groups();

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

// What C functions are given, checked: a UsageError that names the argument instead of a crash.

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

void require_apart(const void* in, std::size_t in_bytes, const void* out, std::size_t out_bytes);

std::shared_ptr<Group> group_of(std::int64_t handle);

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
