#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/trace/monitor.hpp"
#include "tnt/comm/trace/trace_files.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// How two clocks differ: the other one shows `offset_ns` more than this one,
/// give or take `error_ns`.
struct ClockOffset {
  std::int64_t offset_ns = 0;
  std::int64_t error_ns = 0;
};

/// Compares this rank's clock with that of the group's first member.
/// Collective, blocking; some messages.
///
/// In each of several rounds all members exchange the time at which they began
/// the round, and note when they had everything. A message cannot arrive before
/// it was sent, on whichever clock: with the offset d,
///
///     first.begin <= end + d     and     begin + d <= first.end,
///
/// which bounds d from both sides. The result is the middle of the tightest
/// bounds of all rounds.
ClockOffset measure_clock_offset(Group& group, const std::function<std::int64_t()>& now_ns);

/// Writes the timeline of a rank, and joins those of all ranks (TNT_TIMELINE).
///
/// Each rank writes a part: an empty one at start-up, so that a path that
/// cannot be written is an error before work begins; a complete one at the end;
/// and one as soon as it sees that another rank has ended, since it may then be
/// ended from outside before it comes to its own end. Nobody waits for anybody:
/// who sees no other rank run any more at his end joins the parts, and so does
/// everybody who sees that a rank has failed.
///
/// Apart from the constructor, problems are warnings.
class TimelineKeeper {
 public:
  /// UsageError if the file cannot be written there.
  TimelineKeeper(const Environment& environment, std::shared_ptr<Monitor> monitor,
                 Transport& transport);

  /// All times are written as those of rank 0's clock.
  void set_clock(const ClockOffset& offset) {
    const std::lock_guard lock(mutex_);
    info_.clock_offset_ns = offset.offset_ns;
    info_.clock_error_ns = offset.error_ns;
  }

  /// Looks a few times per second whether another rank has ended. To be called
  /// often, by one thread.
  void look();

  /// Before this rank tells the others that it ends.
  void write_all() { write(PartState::complete); }

  /// After that. `has_failed`: the job is about to end, whoever still runs.
  void join(bool has_failed);

 private:
  struct Others {
    bool is_one_running = false;
    bool has_one_ended = false;
    bool has_one_failed = false;
  };

  Others look_at_others() const;
  void write(PartState state);
  void merge(bool has_ended);
  void warn_on_error(const std::function<void()>& action) const;

  std::shared_ptr<Monitor> monitor_;
  Transport& transport_;
  TracePaths place_;
  Clock::time_point next_look_;
  bool has_seen_end_ = false;
  bool has_seen_failure_ = false;

  std::mutex mutex_;
  PartInfo info_;  // its clock and state
};

}  // namespace tnt::comm
