#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tnt/comm/collective/rma/schedule_run.hpp"

namespace tnt::comm {

/// Several runs of one stream of blocks, under way at once, oldest first.
///
/// All use the same notification numbers, with values that grow from block to
/// block. Who looks for a value takes any larger one for it, so a block must
/// not send a round before the block in front of it has.
class RunQueue {
 public:
  /// `capacity` runs at most.
  RunQueue(std::shared_ptr<Segment> segment, NotificationId first_id, std::size_t capacity);

  bool is_full() const { return num_runs_ == runs_.size(); }
  bool is_empty() const { return num_runs_ == 0; }

  /// Like ScheduleRun::begin.
  void push(const Schedule& schedule, std::size_t slot, std::uint64_t value);

  /// Advances all runs; true if anything was done.
  bool advance(const Combiner& combiner);

  bool is_oldest_done() const { return !is_empty() && run(0).is_done(); }
  void pop();

  /// Appends the members that any run waits for, those of the oldest first.
  void append_missing(std::vector<int>& members) const;

 private:
  ScheduleRun& run(std::size_t age) { return runs_[(oldest_ + age) % runs_.size()]; }
  const ScheduleRun& run(std::size_t age) const { return runs_[(oldest_ + age) % runs_.size()]; }

  std::shared_ptr<Segment> segment_;
  std::vector<ScheduleRun> runs_;
  std::size_t oldest_ = 0;
  std::size_t num_runs_ = 0;
};

}  // namespace tnt::comm
