#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "tnt/comm/base/deadline.hpp"

namespace tnt::comm {

/// What one rank's communication has cost since the start.
struct Counters {
  std::uint64_t num_operations = 0;  ///< collectives, buckets and gathers that were begun
  std::uint64_t num_bytes = 0;       ///< of this rank's contributions to them
  std::uint64_t num_waits = 0;       ///< how often a thread had to wait for one
  double communication_s = 0;        ///< at least one of them was under way
  double exposed_s = 0;              ///< at least one thread waited for one
};

/// Length of the union of intervals of which any number may be open at once.
/// Not thread-safe.
class IntervalUnion {
 public:
  void open(Clock::time_point now) {
    if (num_open_++ == 0) begin_ = now;
  }
  void close(Clock::time_point now) {
    if (--num_open_ == 0) total_ += now - begin_;
  }
  double total_s(Clock::time_point now) const {
    const Clock::duration open = num_open_ > 0 ? now - begin_ : Clock::duration::zero();
    return std::chrono::duration<double>(total_ + open).count();
  }

 private:
  int num_open_ = 0;
  Clock::time_point begin_;
  Clock::duration total_{};
};

/// Counts what one rank communicates. Any thread; the lock is held for a few
/// additions.
class Meter {
 public:
  /// One more operation. `is_under_way`: until end_operation().
  void begin_operation(std::uint64_t num_bytes, bool is_under_way);
  void end_operation();

  /// One that its caller has waited for, after the fact: it was short.
  void add_operation(std::uint64_t num_bytes, Clock::time_point begin, Clock::time_point end);

  /// A thread waits since `now`. `is_alone`: for an operation that was not begun
  /// as being under way, so that the wait stands for its time too.
  void begin_wait(bool is_alone, Clock::time_point now);
  void end_wait(bool is_alone);

  Counters counters() const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t num_operations_ = 0;
  std::uint64_t num_bytes_ = 0;
  std::uint64_t num_waits_ = 0;
  IntervalUnion communication_;
  IntervalUnion waits_;
};

}  // namespace tnt::comm
