#include "tnt/comm/trace/monitor.hpp"

#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

// The clock is read before the lock is taken, to hold it for a moment only. So a close may come
// with a time a little before an open; durations stay right to that little.

void Meter::begin_operation(std::uint64_t num_bytes, bool is_under_way) {
  const Clock::time_point now = is_under_way ? Clock::now() : Clock::time_point();
  const std::lock_guard lock(mutex_);
  ++counters_.num_operations;
  counters_.num_bytes += num_bytes;
  if (is_under_way) communication_.open(now);
}

void Meter::end_operation() {
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  communication_.close(now);
}

void Meter::add_operation(std::uint64_t num_bytes, Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  ++counters_.num_operations;
  counters_.num_bytes += num_bytes;
  ++counters_.num_waits;
  for (IntervalUnion* intervals : {&communication_, &waits_}) {
    intervals->open(begin);
    intervals->close(end);
  }
}

void Meter::begin_wait(bool is_alone, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  ++counters_.num_waits;
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
  Counters result = counters_;
  result.communication_s = communication_.total_s(now);
  result.exposed_s = waits_.total_s(now);
  return result;
}

void Probe::attach(std::shared_ptr<Monitor> monitor, std::shared_ptr<Track> track,
                   std::uint64_t num_bytes) {
  monitor_ = std::move(monitor);
  track_ = std::move(track);
  num_bytes_ = num_bytes;
}

void Probe::post(bool is_under_way) {
  if (!monitor_) return;
  // Others may look at it, but only while it stays the same.
  if (is_under_way_ != is_under_way) is_under_way_ = is_under_way;
  is_posted_.store(true, std::memory_order_relaxed);
  monitor_->meter.begin_operation(num_bytes_, is_under_way);
  if (track_) track_->post();
}

void Probe::end(bool is_complete) {
  if (!monitor_ || !is_posted_.exchange(false, std::memory_order_relaxed)) return;
  if (is_under_way_) monitor_->meter.end_operation();
  if (track_) track_->end(is_complete);
}

ObservedWait::ObservedWait(const Probe& probe, Clock::time_point start) : probe_(probe) {
  if (!probe_.monitor_) return;
  probe_.monitor_->meter.begin_wait(!probe_.is_under_way_, start);
  if (!probe_.track_) return;
  Timeline& timeline = *probe_.monitor_->timeline;
  timeline.record(EventKind::begin, timeline.row_of_this_thread(), probe_.track_->wait_name());
}

ObservedWait::~ObservedWait() {
  if (!probe_.monitor_) return;
  probe_.monitor_->meter.end_wait(!probe_.is_under_way_);
  if (!probe_.track_) return;
  Timeline& timeline = *probe_.monitor_->timeline;
  timeline.record(EventKind::end, timeline.row_of_this_thread(), probe_.track_->wait_name());
}

RowSpec OperationTrack::row(std::string title) {
  return {.title = std::move(title), .category = "collective", .value_name = "bytes"};
}

OperationTrack::OperationTrack(Timeline& timeline, RowId row, std::string_view name,
                               std::uint64_t num_bytes)
    : timeline_(timeline),
      row_(row),
      name_(timeline.name(name)),
      wait_name_(timeline.name(text("wait for ", name))),
      failed_(timeline.name("failed")),
      num_bytes_(num_bytes) {}

void OperationTrack::end(bool is_complete) {
  if (!is_complete) timeline_.record(EventKind::instant, row_, failed_);
  timeline_.record(EventKind::end, row_, name_);
}

}  // namespace tnt::comm
