#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"

namespace tnt::comm {

/// Objects by integer handle, for callers that cannot hold C++ pointers. A
/// looked-up object stays alive while it is used, even if it is closed
/// meanwhile. Handles are never reused.
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

  /// Closes the object and forgets it. Nothing in a forked child, to which it
  /// does not belong.
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

/// The groups that C programs have created.
Registry<Group>& groups();

}  // namespace tnt::comm
