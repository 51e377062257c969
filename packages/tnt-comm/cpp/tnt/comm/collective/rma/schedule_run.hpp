#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// What combines the operands of a round; null where nothing is combined.
struct Combiner {
  TreeReducer* reducer = nullptr;
  std::size_t element_bytes = 1;
};

/// One schedule on its way: knows the round and what of it is done.
///
/// Never blocks: messages are sent only while the transport has room for them,
/// and a message that has not arrived is looked for again in the next call.
class ScheduleRun {
 public:
  ScheduleRun(Segment& segment, NotificationId first_id) : segment_(&segment), id_(first_id) {}

  /// `value` is what this run's notifications carry. The schedule must live
  /// until the run is done.
  void begin(const Schedule& schedule, std::size_t slot, std::uint64_t value);

  /// Does what can be done now, but no more than one long combination; true if
  /// that was anything. Sends no round from `sendable_rounds` on.
  bool advance(std::size_t sendable_rounds, const Combiner& combiner);

  bool is_done() const { return round_ == schedule_->rounds.size(); }

  /// Whether this run can do nothing before messages of its round arrive.
  bool is_waiting() const {
    return num_sent_rounds_ > round_ && !is_done() &&
           num_received_ < schedule_->rounds[round_].arrivals.size();
  }
  std::size_t round() const { return round_; }

  /// Rounds whose messages are all sent.
  std::size_t num_sent_rounds() const { return num_sent_rounds_; }

  /// Appends the members whose message the current round still waits for.
  void append_missing(std::vector<int>& members) const;

 private:
  bool send(const Round& round, std::size_t sendable_rounds);
  bool receive(const Round& round);
  void combine(const Round& round, const Combiner& combiner);
  bool has_arrived(const Arrival& arrival) const;

  Segment* segment_;
  NotificationId id_;
  const Schedule* schedule_ = nullptr;
  std::size_t slot_ = 0;
  std::uint64_t value_ = 0;
  std::size_t round_ = 0;
  std::size_t num_sent_rounds_ = 0;
  std::size_t num_sent_ = 0;      // of the round
  std::size_t num_received_ = 0;  // of the round
  std::size_t num_combined_ = 0;  // bytes of the round
  std::vector<const std::byte*> operands_;
};

/// Several runs of one stream of blocks, under way at once, oldest first.
///
/// All use the same notification numbers, with values that grow from block to
/// block. Who looks for a value takes any larger one for it, so a block must
/// not send a round before the block in front of it has.
class RunQueue {
 public:
  /// `capacity` runs at most.
  RunQueue(Segment& segment, NotificationId first_id, std::size_t capacity)
      : runs_(capacity, ScheduleRun(segment, first_id)) {}

  /// Like ScheduleRun::begin.
  void push(const Schedule& schedule, std::size_t slot, std::uint64_t value);

  /// Advances all runs; true if anything was done.
  bool advance(const Combiner& combiner);

  bool is_oldest_done() const { return num_runs_ > 0 && run(0).is_done(); }
  void pop();

  /// Appends the members that any run waits for, those of the oldest first.
  void append_missing(std::vector<int>& members) const;

 private:
  ScheduleRun& run(std::size_t age) { return runs_[(oldest_ + age) % runs_.size()]; }
  const ScheduleRun& run(std::size_t age) const { return runs_[(oldest_ + age) % runs_.size()]; }

  std::vector<ScheduleRun> runs_;
  std::size_t oldest_ = 0;
  std::size_t num_runs_ = 0;
};

}  // namespace tnt::comm
