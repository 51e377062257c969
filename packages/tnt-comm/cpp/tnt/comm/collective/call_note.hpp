#pragma once

#include <atomic>
#include <string>
#include <utility>

namespace tnt::comm {

/// The note of a call (see CallLabel): "" unless it is given, which may be after
/// the call has begun, as promised.
///
/// Threads: promise() before others know of it; give() once; the rest from any
/// thread.
class CallNote {
 public:
  /// It will be given soon. Nobody is told of a mismatch before that.
  void promise() { is_given_.store(false, std::memory_order_relaxed); }

  void give(std::string text) {
    text_ = std::move(text);
    is_given_.store(true, std::memory_order_release);
  }

  bool is_given() const { return is_given_.load(std::memory_order_acquire); }
  std::string text() const { return is_given() ? text_ : std::string(); }

 private:
  std::atomic<bool> is_given_{true};
  std::string text_;
};

}  // namespace tnt::comm
