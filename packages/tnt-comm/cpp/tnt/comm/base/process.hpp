#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

/// From now on this process' children know that they are forks. Idempotent.
void watch_forks();

/// Whether this process is a fork of one that called watch_forks(). It has copies of its parent's
/// objects, and none of its threads; locks may be held for ever. So it must leave them alone.
TNT_COMM_EXPORT bool is_forked_child() noexcept;

/// UsageError in a forked child, with what to do instead.
TNT_COMM_EXPORT void refuse_forked_child();

/// For messages: what a limit is, and that it may have to be raised. `resource` as for getrlimit().
std::string advice_for_limit(__rlimit_resource_t resource, const char* what);

/// Version of this library, such as "1.2.0".
const char* version();

/// Which build of this library this is, such as "tnt-comm 1.2.0, little-endian". Ranks tell each
/// other before anything else: what they send later is laid out as in one build.
std::string build_name();

/// Name of this host.
std::string host_name();

/// Bytes of a page of memory.
std::size_t page_bytes();

/// Starts a thread of this library. Signals belong to the program's own threads
/// (Python handles them in its main thread), so it has all of them blocked.
/// `name` has at most 15 characters. CommError if there can be no more threads.
std::thread start_without_signals(const char* name, std::function<void()> body);

/// A call that may never return, made by a thread of its own: whoever has waited
/// long enough leaves it behind.
class DetachableCall {
 public:
  /// Starts the call. `name` of the thread has at most 15 characters. What `function`
  /// uses must live as long as the process does, or be owned by it.
  DetachableCall(const char* name, std::function<void()> function) {
    const auto task = std::make_shared<std::packaged_task<void()>>(std::move(function));
    outcome_ = task->get_future();
    thread_ = start_without_signals(name, [task] { (*task)(); });
  }

  /// Leaves the call behind if it has not returned.
  ~DetachableCall() {
    if (!thread_.joinable()) return;
    if (has_returned()) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }

  DetachableCall(DetachableCall&&) = delete;

  bool has_returned() const {
    return outcome_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  /// Throws what the call has thrown. After it has returned only, and once.
  void get() {
    thread_.join();
    outcome_.get();
  }

 private:
  std::future<void> outcome_;
  std::thread thread_;
};

}  // namespace tnt::comm
