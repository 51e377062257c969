#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "tnt/comm/trace/timeline.hpp"

namespace tnt::comm {

/// What one rank's communication has cost since the start.
struct Counters {
  std::uint64_t num_operations = 0;  ///< collectives, buckets and gathers that were begun
  std::uint64_t num_bytes = 0;       ///< of this rank's contributions to them
  std::uint64_t num_waits = 0;       ///< how often a thread had to wait for one
  double communication_s = 0;        ///< at least one of them was under way
  double exposed_s = 0;              ///< at least one thread waited for one
};

/// Length of the union of intervals of which any number may be open at once. Not thread-safe.
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

/// Counts what one rank communicates. Any thread; the lock is held for a few additions. The clock
/// is read before it is taken. So a close may come with a time a little before an open; durations
/// stay right to that little.
class Meter {
 public:
  /// One more operation. `is_under_way`: until end_operation().
  void begin_operation(std::uint64_t num_bytes, bool is_under_way) {
    const Clock::time_point now = is_under_way ? Clock::now() : Clock::time_point();
    const std::lock_guard lock(mutex_);
    ++counters_.num_operations;
    counters_.num_bytes += num_bytes;
    if (is_under_way) communication_.open(now);
  }

  void end_operation() {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    communication_.close(now);
  }

  /// One that its caller has waited for, after the fact: it was short.
  void add_operation(std::uint64_t num_bytes, Clock::time_point begin, Clock::time_point end) {
    const std::lock_guard lock(mutex_);
    ++counters_.num_operations;
    counters_.num_bytes += num_bytes;
    ++counters_.num_waits;
    for (IntervalUnion* intervals : {&communication_, &waits_}) {
      intervals->open(begin);
      intervals->close(end);
    }
  }

  /// A thread waits since `now`. `is_alone`: for an operation that was not begun
  /// as being under way, so that the wait stands for its time too.
  void begin_wait(bool is_alone, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    ++counters_.num_waits;
    waits_.open(now);
    if (is_alone) communication_.open(now);
  }

  void end_wait(bool is_alone) {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    waits_.close(now);
    if (is_alone) communication_.close(now);
  }

  Counters counters() const {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    Counters result = counters_;
    result.communication_s = communication_.total_s(now);
    result.exposed_s = waits_.total_s(now);
    return result;
  }

 private:
  mutable std::mutex mutex_;
  Counters counters_;  // without the times
  IntervalUnion communication_;
  IntervalUnion waits_;
};

struct Monitor {
  Meter meter;
  std::unique_ptr<Timeline> timeline;  ///< null unless it was asked for
};

/// How an operation is drawn. Exists with a timeline only.
class Track {
 public:
  virtual ~Track() = default;
  virtual void post() {}   ///< it was given away
  virtual void begin() {}  ///< it is its turn to be advanced
  virtual void end(bool is_complete) = 0;
  virtual NameId wait_name() const = 0;
};

/// Follows an operation for the monitor: counts it, and draws it if there is a timeline. Part of
/// the operation, which tells it what happens. Until it is attached, it observes nothing.
class Probe {
 public:
  /// `track` may be null.
  void attach(std::shared_ptr<Monitor> monitor, std::shared_ptr<Track> track,
              std::uint64_t num_bytes) {
    monitor_ = std::move(monitor);
    track_ = std::move(track);
    num_bytes_ = num_bytes;
  }

  /// It was given away, and is under way until end(). One that repeats is posted each time anew.
  void post() { post(true); }

  /// It was given away by somebody who waits for it at once: it counts as under
  /// way while he waits, which saves a look at the clock.
  void post_and_wait() { post(false); }

  void advance() {
    if (!track_ || has_begun_) return;
    has_begun_ = true;
    track_->begin();
  }

  /// It is complete or has failed. Before anybody can know; the first call after a post() counts.
  void end(bool is_complete) {
    if (!monitor_ || !is_posted_.exchange(false, std::memory_order_relaxed)) return;
    if (is_under_way_) monitor_->meter.end_operation();
    if (track_) track_->end(is_complete);
  }

 private:
  friend class ObservedWait;

  void post(bool is_under_way) {
    if (!monitor_) return;
    // Others may look at it, but only while it stays the same.
    if (is_under_way_ != is_under_way) is_under_way_ = is_under_way;
    is_posted_.store(true, std::memory_order_relaxed);
    monitor_->meter.begin_operation(num_bytes_, is_under_way);
    if (track_) track_->post();
  }

  std::shared_ptr<Monitor> monitor_;
  std::shared_ptr<Track> track_;
  std::uint64_t num_bytes_ = 0;
  bool is_under_way_ = true;  // when posted
  bool has_begun_ = false;
  std::atomic<bool> is_posted_{false};
};

class ObservedWait {
 public:
  ObservedWait(const Probe& probe, Clock::time_point start) : probe_(probe) {
    if (!probe_.monitor_) return;
    probe_.monitor_->meter.begin_wait(!probe_.is_under_way_, start);
    record(EventKind::begin);
  }

  ~ObservedWait() {
    if (!probe_.monitor_) return;
    probe_.monitor_->meter.end_wait(!probe_.is_under_way_);
    record(EventKind::end);
  }

  ObservedWait(ObservedWait&&) = delete;

 private:
  void record(EventKind kind) const {
    if (!probe_.track_) return;
    Timeline& timeline = *probe_.monitor_->timeline;
    timeline.record(kind, timeline.row_of_this_thread(), probe_.track_->wait_name());
  }

  const Probe& probe_;
};

/// Draws an operation on a row where one runs after the other.
class OperationTrack final : public Track {
 public:
  static RowSpec row(std::string title) {
    return {.title = std::move(title), .category = "collective", .value_name = "bytes"};
  }

  OperationTrack(Timeline& timeline, RowId row, std::string_view name, std::uint64_t num_bytes)
      : timeline_(timeline),
        row_(row),
        name_(timeline.name(name)),
        wait_name_(timeline.name(text("wait for ", name))),
        failed_(timeline.name("failed")),
        num_bytes_(num_bytes) {}

  void begin() override { timeline_.record(EventKind::begin, row_, name_, num_bytes_); }

  void end(bool is_complete) override {
    if (!is_complete) timeline_.record(EventKind::instant, row_, failed_);
    timeline_.record(EventKind::end, row_, name_);
  }

  NameId wait_name() const override { return wait_name_; }

 private:
  Timeline& timeline_;
  RowId row_;
  NameId name_;
  NameId wait_name_;
  NameId failed_;  // looked up at the start, since at the end there may be no memory
  std::uint64_t num_bytes_;
};

}  // namespace tnt::comm
