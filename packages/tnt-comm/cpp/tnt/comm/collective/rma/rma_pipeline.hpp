#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "tnt/comm/collective/rma/rma_stream.hpp"
#include "tnt/comm/collective/rma/schedule_run.hpp"
#include "tnt/comm/progress/operation.hpp"

namespace tnt::comm {

class RmaPipeline;

/// What is done with the blocks of one collective among ranks that can only put into each
/// other's memory. `index` counts them from 0.
class RmaWork {
 public:
  explicit RmaWork(const RmaPipeline& pipeline) : pipeline_(pipeline) {}
  virtual ~RmaWork() = default;

  /// Set by the constructor of the subclass, or by on_match().
  std::uint64_t num_blocks = 0;
  std::size_t most_blocks_in_flight = std::numeric_limits<std::size_t>::max();
  /// Whether blocks may be sent before it is known that all ranks make the same call.
  bool sends_before_match = false;
  /// Whether what is done besides the exchange takes time, and is done for one block per advance().
  bool takes_turns = true;

  /// Called once by a call, before anything is copied out.
  virtual void on_match() {}

  /// Fills what this rank sends in the slot of the block.
  virtual void copy_in(std::uint64_t /*index*/) {}
  /// Called until it is `done`: then the exchange begins.
  virtual Progress prepare(std::uint64_t /*index*/) { return Progress::done; }
  /// Must stay as it is until the block is finished.
  virtual const Schedule& schedule_of(std::uint64_t index) const = 0;
  virtual Combiner combiner() { return {}; }
  /// See ScheduleRun::begin().
  virtual const std::byte* own_operand(std::uint64_t /*index*/) const { return nullptr; }
  /// Called when the exchange is over, until it is `done`.
  virtual Progress distribute(std::uint64_t /*index*/) { return Progress::done; }
  /// Whether everything is there that copy_out() reads.
  virtual bool is_complete(std::uint64_t /*index*/) { return true; }
  virtual void copy_out(std::uint64_t /*index*/) {}
  virtual void release_arrays() {}

  /// Appends group members whose data is waited for.
  virtual void append_missing(std::vector<int>& members) const;

 protected:
  const RmaPipeline& pipeline() const { return pipeline_; }
  const RmaStream& stream() const;
  std::byte* slot(std::uint64_t index) const;

 private:
  const RmaPipeline& pipeline_;
};

/// Takes an operation through the slots of a stream, with up to `depth` of its blocks under way:
/// each is filled, prepared, exchanged, distributed and copied out. StagingPipeline, which only
/// looks at slots in rounds, is shorter and a short call's whole time. Threads: one at a time.
class RmaPipeline {
 public:
  explicit RmaPipeline(std::shared_ptr<RmaStream> stream)
      : stream_(std::move(stream)),
        runs_(stream_->layout.depth, ScheduleRun(*stream_->segment, stream_->layout.notification)) {
  }

  /// From the stream's next block on. `num_filled`: blocks that are packed in their slots already.
  void begin(std::uint64_t num_filled = 0) {
    base_ = stream_->next_block;
    filled_ = num_filled;
    sent_ = exchanged_ = distributed_ = finished_ = 0;
  }

  /// Does what can be done without waiting; when `done`, the slots are free for the next operation.
  /// `has_matched`: all ranks take part in the same one.
  Progress advance(RmaWork& work, bool has_matched) {
    bool has_moved = false;
    const auto advance_by = [&](bool (RmaPipeline::*stage)(RmaWork&)) {
      while ((this->*stage)(work)) {
        has_moved = true;
        if (work.takes_turns) return;
      }
    };
    if (has_matched || work.sends_before_match) advance_by(&RmaPipeline::try_fill);
    advance_by(&RmaPipeline::try_send);
    has_moved |= exchange(work.combiner());
    advance_by(&RmaPipeline::try_distribute);
    if (has_matched) advance_by(&RmaPipeline::try_finish);
    if (!has_matched || finished_ < work.num_blocks) {
      return has_moved ? Progress::advanced : Progress::pending;
    }
    stream_->next_block = base_ + finished_;
    return Progress::done;
  }

  RmaStream& stream() const { return *stream_; }
  std::uint64_t base() const { return base_; }  ///< the stream's number of the first block

  std::uint64_t num_filled() const { return filled_; }
  std::uint64_t num_sent() const { return sent_; }  ///< whose exchange has begun
  std::uint64_t num_distributed() const { return distributed_; }
  std::uint64_t num_finished() const { return finished_; }

  /// Appends the members that any block waits for, those of the oldest first.
  void append_missing(std::vector<int>& members) const {
    for (std::uint64_t index = exchanged_; index < sent_; ++index) {
      runs_[index % runs_.size()].append_missing(members);
    }
  }

  /// Whether the member is known to have begun the operation, from a message of its first block.
  bool has_heard_of(int member, const RmaWork& work) const {
    if (member == stream_->rank()) return true;
    const auto has_come = [&](const Arrival& arrival) {
      const NotificationId id = stream_->layout.notification + arrival.id;
      return arrival.member == member && stream_->segment->poll(member, id) > base_;
    };
    const std::vector<Round>& rounds = work.schedule_of(0).rounds;
    return std::any_of(rounds.begin(), rounds.end(), [&](const Round& round) {
      return std::any_of(round.arrivals.begin(), round.arrivals.end(), has_come);
    });
  }

 private:
  bool try_fill(RmaWork& work) {
    const std::size_t most = std::min(work.most_blocks_in_flight, stream_->layout.depth);
    if (filled_ == work.num_blocks || filled_ - finished_ == most) return false;
    work.copy_in(filled_);
    ++filled_;
    return true;
  }

  bool try_send(RmaWork& work) {
    if (sent_ == filled_) return false;
    const Progress progress = work.prepare(sent_);
    if (progress != Progress::done) return progress == Progress::advanced;
    const std::uint64_t block = base_ + sent_;
    runs_[sent_ % runs_.size()].begin(work.schedule_of(sent_), stream_->slot_offset(block),
                                      block + 1, work.own_operand(sent_));
    ++sent_;
    return true;
  }

  // All blocks use the same notification numbers, with values that grow from block to block. Who
  // looks for a value takes any larger one for it, so a block must not send a round before the
  // block in front of it has.
  bool exchange(const Combiner& combiner) {
    constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    bool has_moved = false;
    std::size_t sendable_rounds = kNone;
    std::size_t awaited_round = kNone;
    for (std::uint64_t index = exchanged_; index < sent_; ++index) {
      ScheduleRun& run = runs_[index % runs_.size()];
      // What an older run still waits for in the same round has not come for this
      // one either. Most runs are in this state, and each look costs cache misses.
      if (run.is_waiting() && run.round() == awaited_round) continue;
      has_moved |= run.advance(sendable_rounds, combiner);
      if (run.is_waiting()) awaited_round = run.round();
      // A finished run has sent everything; blocks may have different numbers of
      // rounds only if the later operation began after the earlier one's end.
      if (!run.is_done()) sendable_rounds = run.num_sent_rounds();
    }
    while (exchanged_ < sent_ && runs_[exchanged_ % runs_.size()].is_done()) ++exchanged_;
    return has_moved;
  }

  bool try_distribute(RmaWork& work) {
    if (distributed_ == exchanged_) return false;
    const Progress progress = work.distribute(distributed_);
    if (progress == Progress::done) ++distributed_;
    return progress != Progress::pending;
  }

  bool try_finish(RmaWork& work) {
    if (finished_ == distributed_ || !work.is_complete(finished_)) return false;
    work.copy_out(finished_);
    ++finished_;
    return true;
  }

  std::shared_ptr<RmaStream> stream_;
  std::vector<ScheduleRun> runs_;  // of the blocks that are exchanged, each by its index
  std::uint64_t base_ = 0;
  std::uint64_t filled_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t exchanged_ = 0;
  std::uint64_t distributed_ = 0;
  std::uint64_t finished_ = 0;
};

inline void RmaWork::append_missing(std::vector<int>& members) const {
  pipeline_.append_missing(members);
}
inline const RmaStream& RmaWork::stream() const {
  return pipeline_.stream();
}
inline std::byte* RmaWork::slot(std::uint64_t index) const {
  return stream().slot(pipeline_.base() + index);
}

}  // namespace tnt::comm
