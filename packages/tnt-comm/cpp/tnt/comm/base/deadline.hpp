#pragma once

#include <chrono>
#include <cstdint>

namespace tnt::comm {

using Clock = std::chrono::steady_clock;

/// A point in time after which a wait gives up. There is no "never".
class Deadline {
 public:
  explicit Deadline(double timeout_s, Clock::time_point start = Clock::now())
      : start_(start), timeout_s_(timeout_s), end_(start_ + to_duration(timeout_s)) {}

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
  Clock::time_point start_;
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

}  // namespace tnt::comm
