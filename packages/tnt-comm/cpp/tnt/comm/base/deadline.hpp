#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

using Clock = std::chrono::steady_clock;

/// A point in time after which a wait gives up. There is no "never".
class Deadline {
 public:
  explicit Deadline(double timeout_s, Clock::time_point start = Clock::now())
      : timeout_s_(timeout_s), end_(start + to_duration(timeout_s)) {}

  bool is_over() const { return Clock::now() >= end_; }
  double timeout_s() const { return timeout_s_; }
  Clock::time_point end() const { return end_; }

  static Clock::duration to_duration(double seconds) {
    // A century is far enough and cannot overflow the clock's 64 bits.
    constexpr double kLongest = 100.0 * 365 * 24 * 3600;
    const double bounded = seconds < kLongest ? seconds : kLongest;
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bounded));
  }

 private:
  double timeout_s_;
  Clock::time_point end_;
};

/// What the clock shows, in nanoseconds. One clock per host.
inline std::int64_t now_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Called several times per second during a wait; throws to end it (Python:
/// Ctrl-C). Empty: nothing interrupts.
using InterruptCheck = std::function<void()>;

/// While it lives, a check is made in all waits of this thread for other ranks
/// that have none of their own: those in which a job is joined and objects are
/// created.
class TNT_COMM_EXPORT InterruptScope {
 public:
  explicit InterruptScope(InterruptCheck check);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  InterruptCheck before_;
};

/// The check of this thread; empty outside of an InterruptScope.
const InterruptCheck& interrupt_check_of_this_thread();

/// Makes it, at most some times per second. To be called in loops that wait.
void check_interrupt();

/// First report of a wait for ranks to join, since on a busy host they import for long.
constexpr double kStartReportS = 120.0;

/// A wait for other ranks in which this one looks again and again.
struct PolledWait {
  int rank = 0;  ///< this one
  const Deadline& deadline;
  double stall_report_s = 0;
  std::chrono::microseconds interval{500};  ///< between two looks
  /// What has been waited for, for so many seconds: said in a warning and at the deadline, with the
  /// remedy.
  std::function<std::string(double)> complaint;
  std::string remedy;
};

/// Looks until `is_reached`. Warns once of a long wait; throws a timeout error, what
/// Ctrl-C throws, and what `is_reached` throws.
void poll_until(const PolledWait& wait, const std::function<bool()>& is_reached);

}  // namespace tnt::comm
