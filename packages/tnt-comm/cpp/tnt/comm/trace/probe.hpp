#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tnt/comm/trace/meter.hpp"
#include "tnt/comm/trace/timeline.hpp"

namespace tnt::comm {

/// What observes the communication of one rank.
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

/// Follows an operation for the monitor: counts it, and draws it if there is a
/// timeline. Part of the operation, which tells it what happens. Until it is
/// attached, it observes nothing.
class Probe {
 public:
  /// `track` may be null.
  void attach(std::shared_ptr<Monitor> monitor, std::shared_ptr<Track> track,
              std::uint64_t num_bytes);

  /// It was given away, and is under way until end(). One that repeats is
  /// posted each time anew.
  void post() { post(true); }

  /// It was given away by somebody who waits for it at once: it counts as under
  /// way while he waits, which saves a look at the clock.
  void post_and_wait() { post(false); }

  void advance() {
    if (track_ && !has_begun_) begin();
  }

  /// It is complete or has failed. To be called before anybody can know of it;
  /// only the first call after a post() counts.
  void end(bool is_complete);

 private:
  friend class ObservedWait;
  void post(bool is_under_way);
  void begin();

  std::shared_ptr<Monitor> monitor_;
  std::shared_ptr<Track> track_;
  std::uint64_t num_bytes_ = 0;
  bool is_under_way_ = true;  // when posted
  bool has_begun_ = false;
  std::atomic<bool> is_posted_{false};
};

/// A thread's wait for an operation, from construction to destruction.
class ObservedWait {
 public:
  ObservedWait(const Probe& probe, Clock::time_point start);
  ~ObservedWait();
  ObservedWait(const ObservedWait&) = delete;
  ObservedWait& operator=(const ObservedWait&) = delete;

 private:
  const Probe& probe_;
};

/// Draws an operation on a row where one runs after the other.
class OperationTrack final : public Track {
 public:
  static RowSpec row(std::string title);

  OperationTrack(Timeline& timeline, RowId row, std::string_view name, std::uint64_t num_bytes);

  void begin() override { timeline_.begin(row_, name_, num_bytes_); }
  void end(bool is_complete) override;
  NameId wait_name() const override { return wait_name_; }

 private:
  Timeline& timeline_;
  RowId row_;
  NameId name_;
  NameId wait_name_;
  std::uint64_t num_bytes_;
};

}  // namespace tnt::comm
