#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <random>
#include <semaphore>
#include <utility>

#include "tnt/comm/device/driver_api.hpp"

namespace tnt::comm::tests::fake_cuda {

/// What holds for all streams.
struct Course {
  std::atomic<bool> is_hung{false};
  std::atomic<bool> is_ending{false};            ///< all threads come to their end
  std::atomic<cuda::Result> error{0};            ///< what all is answered with, once it is set
  std::atomic<std::int64_t> num_until_hung{-1};  ///< pieces of work; negative: never
  std::atomic<std::int64_t> longest_delay_us{0};
};
Course& course();

/// A place in one or several streams, which is reached when all have come to it. Who has no use for
/// it any more lets it be used for another place; see MarkUse.
///
/// It is not freed before the end of the driver: whoever did so would have to come behind all who
/// have used it, and ThreadSanitizer would not report what is not ordered by the program.
class Mark {
 public:
  /// Replaces what was ordered by an earlier place.
  void begin(int num_streams) { num_left_.store(num_streams, std::memory_order_release); }

  void reach() { num_left_.fetch_sub(1, std::memory_order_release); }

  /// Whoever finds it reached comes behind what was before it; whoever does not comes behind
  /// nothing.
  bool is_reached() const {
    return num_left_.load(std::memory_order_relaxed) == 0 &&
           num_left_.load(std::memory_order_acquire) == 0;
  }

  bool is_free() const { return num_users_.load(std::memory_order_relaxed) == 0; }

 private:
  friend class MarkUse;
  std::atomic<int> num_left_{0};
  std::atomic<int> num_users_{0};
};

/// While it lives, its mark stands for the same place. May be of none.
class MarkUse {
 public:
  MarkUse() = default;
  explicit MarkUse(Mark* mark) : mark_(mark) {
    if (mark_ != nullptr) mark_->num_users_.fetch_add(1, std::memory_order_relaxed);
  }
  MarkUse(const MarkUse& other) : MarkUse(other.mark_) {}
  MarkUse(MarkUse&& other) noexcept : mark_(std::exchange(other.mark_, nullptr)) {}
  MarkUse& operator=(MarkUse other) noexcept {
    std::swap(mark_, other.mark_);
    return *this;
  }
  ~MarkUse() {
    if (mark_ != nullptr) mark_->num_users_.fetch_sub(1, std::memory_order_release);
  }

  explicit operator bool() const { return mark_ != nullptr; }
  Mark* operator->() const { return mark_; }

 private:
  Mark* mark_ = nullptr;
};

/// A queue and the thread that does what is in it.
///
/// Who pushes is seen by the thread, but not the other way round: so locks and shared counters
/// would hide from ThreadSanitizer what is not ordered by the program.
class Stream {
 public:
  Stream(int device, unsigned seed);
  /// Does not wait for what is left, if the driver ends.
  ~Stream();
  Stream(Stream&&) = delete;

  int device() const { return device_; }

  /// `is_slow`: behind a delay.
  void push(std::function<void()> work, bool is_slow = true);
  void push_mark(MarkUse mark);
  void push_wait(MarkUse mark);

  /// Whether everything is done that was pushed before. Likewise ordered only if it is.
  bool is_idle() const;

  /// Waits for that, or for the end of the driver.
  void wait() const;

  /// The thread ends behind what is in the queue.
  void close();
  bool is_closed() const { return is_closed_.load(std::memory_order_relaxed); }
  /// Whether it is closed, and its thread at the end.
  bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }

 private:
  struct Work {
    std::function<void()> function;
    bool is_slow = false;
    std::atomic<Work*> next{nullptr};
  };

  void run();
  void hold_up(bool is_slow);

  const int device_;
  std::minstd_rand random_;  // of the thread
  std::mutex mutex_;         // of those who push
  Work* last_;               // of those who push
  Work* done_;               // of the thread: the one before the next
  std::counting_semaphore<> num_waiting_{0};
  std::atomic<std::uint64_t> num_pushed_{0};
  std::atomic<std::uint64_t> num_done_{0};
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> has_ended_{false};
};

/// Waits, unless the driver ends.
void wait_until(const std::function<bool()>& is_true);

}  // namespace tnt::comm::tests::fake_cuda
