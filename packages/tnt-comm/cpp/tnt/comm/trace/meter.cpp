#include "tnt/comm/trace/meter.hpp"

namespace tnt::comm {

// The clock is read before the lock is taken, to hold it for a moment only. So
// a close may come with a time a little before an open; durations stay right to
// that little.

void Meter::begin_operation(std::uint64_t num_bytes, bool is_under_way) {
  const Clock::time_point now = is_under_way ? Clock::now() : Clock::time_point();
  const std::lock_guard lock(mutex_);
  ++num_operations_;
  num_bytes_ += num_bytes;
  if (is_under_way) communication_.open(now);
}

void Meter::end_operation() {
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  communication_.close(now);
}

void Meter::add_operation(std::uint64_t num_bytes, Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  ++num_operations_;
  num_bytes_ += num_bytes;
  ++num_waits_;
  for (IntervalUnion* intervals : {&communication_, &waits_}) {
    intervals->open(begin);
    intervals->close(end);
  }
}

void Meter::begin_wait(bool is_alone, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  ++num_waits_;
  waits_.open(now);
  if (is_alone) communication_.open(now);
}

void Meter::end_wait(bool is_alone) {
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  waits_.close(now);
  if (is_alone) communication_.close(now);
}

Counters Meter::counters() const {
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  Counters result;
  result.num_operations = num_operations_;
  result.num_bytes = num_bytes_;
  result.num_waits = num_waits_;
  result.communication_s = communication_.total_s(now);
  result.exposed_s = waits_.total_s(now);
  return result;
}

}  // namespace tnt::comm
